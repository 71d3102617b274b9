/* explain.c: what a caller is told: how a call would run, and what a status means. */
#include "run.h"

void smm_explain_shares(intptr_t count, const smm_home *home, smm_plan_info *info) {
    const smm_nodes *nodes = smm_numa();
    smm_shares shares;
    smm_share_out(info->threads, count, home, &shares);
    info->nodes = shares.count;
    for (int i = 0; i < shares.count; i++) {
        info->node[i] = nodes->count ? nodes->node[shares.node[i]].id : 0;
        info->share[i] = (double)shares.weight[i] / shares.total;
    }
}

smm_status smm_explain(const smm_call *call, smm_plan_info *info) {
    smm_plan plan;
    smm_tiles tiles;
    const smm_status status = smm_plan_call(call, &plan);
    if (status && status != SMM_ERR_ORDER) return status;
    const bool in_parts = smm_is_in_parts(call) && !status && !plan.nothing;
    const bool in_tiles = smm_is_stored(call->dtype) && !status && !plan.nothing;
    if (in_tiles) {
        const smm_status none = smm_plan_tiles(&plan, &tiles);
        if (none) return none;
    }
    const smm_plan *of_kernel = in_tiles ? &tiles.plan : &plan;
    *info = (smm_plan_info){
        .kernel = in_parts            ? plan.kernels->parts.name
                  : of_kernel->kernel ? of_kernel->kernel->name
                                      : NULL,
        .isa = smm_isa(),
        .computed = in_tiles ? smm_dtypes[tiles.plan.call.dtype].name : NULL,
        .swapped = plan.swapped != (in_tiles && tiles.plan.swapped),
        .pack_a = of_kernel->staged & SMM_PACK_A,
        .pack_b = of_kernel->staged & SMM_PACK_B,
        .stage_c = of_kernel->staged & SMM_STAGE_C,
        .nontemporal = plan.nontemporal,
        .threads = plan.threads,
        .parts = in_parts ? smm_pieces(call->n, SMM_PART) : plan.parts,
        .rows = in_parts ? SMM_PART : 0,
        .group = in_tiles ? tiles.batch : plan.group,
        .flops = plan.flops,
        .bytes = plan.bytes,
    };
    if (plan.threads > 1 && !plan.nothing) {
        const smm_home home = smm_home_of(&plan);
        smm_explain_shares(plan.runs * plan.call.batch, plan.parts > 1 ? NULL : &home, info);
    }
    return status;
}

const char *smm_status_text(smm_status status) {
    switch (status) {
    case SMM_OK: return "success";
    case SMM_ERR_ARGUMENT:
        return "an operand is null, a size is negative or does not fit, or a stride splits an element";
    case SMM_ERR_ORDER:
        return "a matrix is too large: factorizations take m x n with min(m, n) <= 128 and m n <= 16384, "
               "diagonals n <= 2^24";
    case SMM_ERR_DTYPE: return "the operation does not take numbers of this element type";
    case SMM_ERR_ISA: return "SMALLMM_ISA names an instruction set that is unknown or not available here";
    case SMM_ERR_KERNEL: return "SMALLMM_KERNEL names a kernel that this build does not have";
    case SMM_ERR_THREADS: return "SMALLMM_NUM_THREADS is not an integer of at least 1";
    case SMM_ERR_MEMORY: return "no memory for the buffers of a thread";
    case SMM_ERR_STOPPED: return "the call was interrupted";
    case SMM_ERR_OPERATION: return "op is no operation of defs/ops.def, or dtype no type of defs/dtypes.def";
    case SMM_ERR_EMPTY: return "there is nothing to compute: batch, or one of m, n, k that the operation has, is 0";
    case SMM_ERR_OVERLAP: return "an output overlaps another operand";
    }
    return "unknown status";
}
