/* operations.c: the tables of operations.h, from ops.def and dtypes.def. */
#include "operations.h"

#include <stddef.h>

#define SMM_OPERAND(OP, name, direction, element, rows, cols) \
    {#name, SMM_##direction, SMM_##element, SMM_SIZE_##rows, SMM_SIZE_##cols},
#define SMM_OPERATION(OP, op, what, flops, operands) \
    {#OP, what, sizeof(smm_##op##_operands) / sizeof(smm_operand), {operands}},
const smm_operation smm_operations[SMM_OPS] = {
#include "../defs/ops.def"
};
#undef SMM_OPERATION
#undef SMM_OPERAND

/* Find the operand of a role: the sum of place + 1 over all operands with that role, less 1. */
#define SMM_OPERAND(OP, name, ...) PLACE_##OP##_##name,
#define SMM_OPERATION(OP, op, what, flops, operands) enum { operands };
#include "../defs/ops.def"
#undef SMM_OPERATION
#undef SMM_OPERAND

#define IS_B(OP, name, direction, element) \
    (SMM_##direction == SMM_IN && SMM_##element == SMM_NUMBER && PLACE_##OP##_##name > 0)

const smm_roles smm_roles_of[SMM_OPS] = {
#define SMM_OPERATION(OP, op, what, flops, operands) [SMM_OP_##OP].b = -1 operands,
#define SMM_OPERAND(OP, name, direction, element, rows, cols) \
    +(IS_B(OP, name, direction, element) ? PLACE_##OP##_##name + 1 : 0)
#include "../defs/ops.def"
#undef SMM_OPERAND
#undef SMM_OPERATION
#define SMM_OPERATION(OP, op, what, flops, operands) [SMM_OP_##OP].result = -1 operands,
#define SMM_OPERAND(OP, name, direction, ...) +(SMM_##direction == SMM_RESULT ? PLACE_##OP##_##name + 1 : 0)
#include "../defs/ops.def"
#undef SMM_OPERAND
#undef SMM_OPERATION
#define SMM_OPERATION(OP, op, what, flops, operands) [SMM_OP_##OP].info = -1 operands,
#define SMM_OPERAND(OP, name, direction, ...) +(SMM_##direction == SMM_OPTIONAL_OUT ? PLACE_##OP##_##name + 1 : 0)
#include "../defs/ops.def"
#undef SMM_OPERAND
#undef SMM_OPERATION
};

/* Every operand is given its workspace in a call. */
#define SMM_OPERATION(OP, op, ...) \
    _Static_assert(sizeof(smm_##op##_operands) <= SMM_MAX_OPERANDS * sizeof(smm_operand), #OP);
#include "../defs/ops.def"
#undef SMM_OPERATION

#define ROW(x, NAME, name, in_memory, ...) typedef in_memory memory_##NAME;
SMM_DTYPES(ROW, _)
#undef ROW

const smm_dtype_row smm_dtypes[SMM_DTYPE_COUNT] = {
#define ROW(x, NAME, name, in_memory, c_type, numpy, dlpack, xla, real, complex_of, computed) \
    {#name,          #in_memory, \
     SMM_##real,     SMM_##complex_of, \
     SMM_##computed, {sizeof(in_memory), sizeof(memory_##real), sizeof(memory_##complex_of), sizeof(int32_t)}},
    SMM_DTYPES(ROW, _)
#undef ROW
};
