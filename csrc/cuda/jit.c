/* jit.c: compiles kernels by NVRTC, and keeps the cubins on disk.
 *
 * The name of a cache file is a hash of its key: everything that the cubin depends on, which is the texts, the options
 * (with the architecture) and the version of NVRTC. The file contains the key and a checksum, so a collision or a
 * damaged file is a miss, and the file is written anew. Files appear by an atomic rename, so processes do not disturb
 * each other. Cubins run on the GPU, so nothing is read that another user could have written. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda.h"

/* The texts of csrc/cuda, embedded by the assembler; the build runs at the top of the tree. */
#define TEXT(name, file) \
    __asm__(".section .rodata\n" \
            "smm_text_" #name ": .incbin \"csrc/cuda/" file "\"\n" \
            ".byte 0\n" \
            ".previous\n"); \
    extern const char smm_text_##name[] __attribute__((visibility("hidden")));
#define SMM_CUDA_HEADER(name, folder, file) TEXT(name, folder file)
#define SMM_CUDA_KERNEL(folder, family, strategy) TEXT(family##_##strategy, #folder "/" #family "_" #strategy ".cuh")
#include "kernels.def"
#undef SMM_CUDA_KERNEL
#undef SMM_CUDA_HEADER

static const char *const header_names[] = {
#define SMM_CUDA_HEADER(name, folder, file) file,
#include "kernels.def"
#undef SMM_CUDA_HEADER
};
static const char *const header_texts[] = {
#define SMM_CUDA_HEADER(name, folder, file) smm_text_##name,
#include "kernels.def"
#undef SMM_CUDA_HEADER
};
enum { HEADERS = sizeof header_names / sizeof *header_names };

static const char *const kernel_texts[] = {
#define SMM_CUDA_KERNEL(folder, family, strategy) smm_text_##family##_##strategy,
#include "kernels.def"
#undef SMM_CUDA_KERNEL
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char cache[3072];

void smm_cuda_set_cache(const char *directory) {
    pthread_mutex_lock(&lock);
    const bool fits = directory && strlen(directory) < sizeof cache;
    strcpy(cache, fits ? directory : "");
    pthread_mutex_unlock(&lock);
}

/* FNV-1a of 64 bits. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes) {
    for (const unsigned char *x = data; bytes--; x++) h = (h ^ *x) * 0x100000001b3;
    return h;
}
static const uint64_t HASH_START = 0xcbf29ce484222325;

/* --- options --- */

enum { OPTIONS = 80, OPTION_LENGTH = 64 };
typedef struct options {
    char text[OPTIONS][OPTION_LENGTH];
    int count;
    bool virtual; /* the architecture is one that the driver compiles for another */
} options;

static void __attribute__((format(printf, 2, 3))) add(options *o, const char *format, ...) {
    va_list words;
    va_start(words, format);
    vsnprintf(o->text[o->count++], OPTION_LENGTH, format, words);
    va_end(words);
}

/* The architecture itself if this NVRTC knows it, else the newest one before it: the driver compiles its PTX. */
static int known_arch(const smm_nvrtc_functions *nvrtc, int arch) {
    int count = 0, archs[256] = {0}, best = 0;
    if (nvrtc->arch_count(&count) || count > 256 || nvrtc->archs(archs)) return arch;
    for (int i = 0; i < count; i++)
        if (archs[i] <= arch && archs[i] > best) best = archs[i];
    return best ? best : arch;
}

/* Those of every kernel. */
static void begin(const smm_nvrtc_functions *nvrtc, int arch, options *o) {
    const int known = known_arch(nvrtc, arch);
    o->count = 0;
    o->virtual = known != arch;
    add(o, "--gpu-architecture=%s_%d", o->virtual ? "compute" : "sm", known);
    add(o, "--std=c++17");
    add(o, "--ptxas-options=-v");
}

static void describe(const smm_cuda_problem *p, const smm_cuda_parameters *x, const smm_cuda_grid *grid,
                     const char *name, options *o) {
    add(o, "-DSMM_NAME=%s", name);
    add(o, "-DSMM_COMPLEX=%d", smm_is_complex(p->dtype));
    /* Of complex numbers the parts. */
    add(o, "-DSMM_T=%s", smm_dtypes[smm_dtypes[smm_dtypes[p->dtype].computed].real].c_type);
    const smm_dtype in_memory = smm_is_complex(p->dtype) ? smm_dtypes[p->dtype].real : p->dtype;
    const bool stored = smm_dtypes[in_memory].computed != in_memory;
    add(o, "-DSMM_STORED=%s", stored ? smm_dtypes[in_memory].name : smm_dtypes[in_memory].c_type);
    for (int op = 0; op < SMM_OPS; op++) add(o, "-DSMM_OP_%s=%d", smm_operations[op].name, op);
    const smm_roles *roles = &smm_roles_of[p->op];
    add(o, "-DSMM_B=%d", roles->b < 0 ? SMM_ABSENT : roles->b);
    add(o, "-DSMM_C=%d", roles->result < 0 ? SMM_ABSENT : roles->result);
    add(o, "-DSMM_INFO=%d", roles->info < 0 ? SMM_ABSENT : roles->info);
    add(o, "-DSMM_OP=%d", p->op);
    add(o, "-DSMM_FORM=%d", p->form);
    if (!p->tiled) { /* else one kernel is for all sizes */
        add(o, "-DSMM_M=%d", p->m);
        add(o, "-DSMM_K=%d", p->k);
        add(o, "-DSMM_N=%d", p->n);
    }
    add(o, "-DSMM_LOWER=%d", p->lower);
    add(o, "-DSMM_SOURCE_A=%d", p->source_a);
    add(o, "-DSMM_SOURCE_B=%d", p->source_b);
    add(o, "-DSMM_SOURCE_C=%d", p->source_c);
    add(o, "-DSMM_SOURCE_REST=%d", p->source_rest);
    add(o, "-DSMM_ORDER_A=%d", p->order_a);
    add(o, "-DSMM_ORDER_B=%d", p->order_b);
    add(o, "-DSMM_ORDER_C=%d", p->order_c);
    add(o, "-DSMM_SCALED=%d", p->scaled);
    add(o, "-DSMM_ALIGNED=%d", grid->aligned);
    add(o, "-DSMM_MATRICES=%d", grid->matrices);
    add(o, "-DSMM_SHARED=%d", grid->shared);
    smm_cuda_parameters y = *x;
    y.threads = grid->threads;
    for (int i = 0; i < smm_cuda_has_count; i++) {
        const smm_cuda_has *has = &smm_cuda_has_list[i];
        const smm_cuda_parameter *parameter = &smm_cuda_parameter_list[has->parameter];
        if (has->kernel != y.kernel) continue;
        add(o, "-DSMM_%s=%d", parameter->macro, *(const int *)((const char *)&y + parameter->offset));
    }
}

/* --- disk --- */

typedef struct head {
    char magic[8];
    uint64_t key_bytes, cubin_bytes, checksum;
} head;
static const char MAGIC[8] = "SMMCUBN1";

/* Open a file or folder (S_IFREG, S_IFDIR) that belongs to this user and that no other user may write to. -1: it is not
 * one, and errno says why. Never blocks, as opening a pipe would. */
static int open_own(int folder, const char *name, mode_t type) {
    const int follow = type == S_IFDIR ? O_DIRECTORY : O_NOFOLLOW; /* a folder may be a link to another disk */
    const int descriptor = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | follow);
    struct stat about;
    if (descriptor < 0) return -1;
    if (!fstat(descriptor, &about) && (about.st_mode & S_IFMT) == type && about.st_uid == geteuid() &&
        !(about.st_mode & (S_IWGRP | S_IWOTH)))
        return descriptor;
    close(descriptor);
    errno = EPERM;
    return -1;
}

bool smm_cuda_may_cache(const char *directory) {
    const int folder = open_own(AT_FDCWD, directory, S_IFDIR);
    if (folder >= 0) close(folder);
    return folder >= 0 || errno == ENOENT;
}

static FILE *open_file(const char *directory, const char *name) {
    const int folder = open_own(AT_FDCWD, directory, S_IFDIR);
    const int descriptor = folder < 0 ? -1 : open_own(folder, name, S_IFREG);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
    if (!file && descriptor >= 0) close(descriptor);
    if (folder >= 0) close(folder);
    return file;
}

static bool read_file(const char *directory, const char *name, const char *key, smm_cuda_cubin *cubin) {
    FILE *file = open_file(directory, name);
    if (!file) return false;
    head h;
    char *data = NULL;
    const size_t key_bytes = strlen(key);
    struct stat about;
    bool good =
        fread(&h, sizeof h, 1, file) == 1 && !memcmp(h.magic, MAGIC, sizeof MAGIC) && h.key_bytes == key_bytes &&
        !fstat(fileno(file), &about) && (uint64_t)about.st_size >= sizeof h + key_bytes &&
        h.cubin_bytes == (uint64_t)about.st_size - sizeof h - key_bytes && (data = malloc(key_bytes + h.cubin_bytes)) &&
        fread(data, 1, key_bytes + h.cubin_bytes, file) == key_bytes + h.cubin_bytes && !memcmp(data, key, key_bytes) &&
        hash(HASH_START, data, key_bytes + h.cubin_bytes) == h.checksum;
    fclose(file);
    if (good) {
        memmove(data, data + key_bytes, h.cubin_bytes);
        cubin->data = data;
        cubin->bytes = h.cubin_bytes;
        cubin->from_disk = true;
    } else
        free(data);
    return good;
}

static void make_directories(char *path) {
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* A cache that cannot be written is not an error: the kernel is compiled again next time. */
static void write_file(const char *directory, const char *name, const char *key, const smm_cuda_cubin *cubin) {
    char path[4096], temporary[sizeof path + 16];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    make_directories(temporary);
    const int descriptor = smm_cuda_may_cache(directory) ? mkostemp(temporary, O_CLOEXEC) : -1;
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (!file) {
        if (descriptor >= 0) close(descriptor);
        return;
    }
    head h = {.key_bytes = strlen(key), .cubin_bytes = cubin->bytes};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    h.checksum = hash(hash(HASH_START, key, h.key_bytes), cubin->data, cubin->bytes);
    const bool written = fwrite(&h, sizeof h, 1, file) == 1 && fwrite(key, h.key_bytes, 1, file) == 1 &&
                         fwrite(cubin->data, cubin->bytes, 1, file) == 1;
    if (fclose(file) || !written || rename(temporary, path)) unlink(temporary);
}

/* --- NVRTC --- */

static smm_cuda_status compile(const smm_nvrtc_functions *nvrtc, const char *text, const options *o,
                               smm_cuda_cubin *cubin) {
    const char *pointers[OPTIONS];
    for (int i = 0; i < o->count; i++) pointers[i] = o->text[i];
    void *program = NULL;
    int error = nvrtc->create(&program, text, cubin->name, HEADERS, header_texts, header_names);
    if (!error) error = nvrtc->compile(program, o->count, pointers);
    size_t bytes = 0;
    if (program && !nvrtc->log_size(program, &bytes) && (cubin->log = calloc(bytes + 1, 1)))
        nvrtc->log(program, cubin->log);
    if (error) {
        smm_cuda_fail(SMM_CUDA_FAILED, "NVRTC could not compile %s (error %d): %.600s", cubin->name, error,
                      cubin->log ? cubin->log : "");
    } else {
        error = o->virtual ? nvrtc->ptx_size(program, &cubin->bytes) : nvrtc->cubin_size(program, &cubin->bytes);
        if (!error && cubin->bytes && (cubin->data = malloc(cubin->bytes)))
            error = o->virtual ? nvrtc->ptx(program, cubin->data) : nvrtc->cubin(program, cubin->data);
        if (error || !cubin->data)
            smm_cuda_fail(SMM_CUDA_FAILED, "NVRTC gave no code for %s (error %d)", cubin->name, error);
    }
    if (program) nvrtc->destroy(&program);
    return !error && cubin->data ? SMM_CUDA_OK : SMM_CUDA_FAILED;
}

static uint64_t hash_texts(const char *text) {
    uint64_t texts = hash(HASH_START, text, strlen(text));
    for (int i = 0; i < HEADERS; i++) texts = hash(texts, header_texts[i], strlen(header_texts[i]));
    return texts;
}

uint64_t smm_cuda_texts(int kernel) { return hash_texts(kernel_texts[kernel]); }

static const bool has_functions[SMM_CUDA_KERNELS] = {
#define SMM_CUDA_FUNCTIONS(family, strategy) [SMM_CUDA_KERNEL_##family##_##strategy] = true,
#include "kernels.def"
#undef SMM_CUDA_FUNCTIONS
};

/* Of a text that includes the CPU's functions.h: products and sums are rounded as there. */
static void allow_functions(options *o) {
    add(o, "--fmad=false");
    add(o, "--device-as-default-execution-space");
    add(o, "--device-int128");
}

/* From the disk, or by NVRTC and then to the disk. */
static smm_cuda_status build(const smm_nvrtc_functions *nvrtc, const char *text, const options *o,
                             smm_cuda_cubin *cubin) {
    int major = 0, minor = 0;
    nvrtc->version(&major, &minor);
    const uint64_t texts = hash_texts(text);
    char key[OPTIONS * OPTION_LENGTH + 128], name[32], directory[sizeof cache];
    int length = snprintf(key, sizeof key, "NVRTC %d.%d texts %016llx", major, minor, (unsigned long long)texts);
    for (int i = 0; i < o->count; i++) length += snprintf(key + length, sizeof key - length, " %s", o->text[i]);
    pthread_mutex_lock(&lock);
    memcpy(directory, cache, sizeof cache);
    pthread_mutex_unlock(&lock);
    snprintf(name, sizeof name, "%016llx.cubin", (unsigned long long)hash(HASH_START, key, length));

    if (*directory && read_file(directory, name, key, cubin)) return SMM_CUDA_OK;
    const smm_cuda_status status = compile(nvrtc, text, o, cubin);
    if (status)
        smm_cuda_free_cubin(cubin);
    else if (*directory)
        write_file(directory, name, key, cubin);
    return status;
}

smm_cuda_status smm_cuda_build(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                               const smm_cuda_grid *grid, smm_cuda_cubin *cubin) {
    const smm_nvrtc_functions *nvrtc;
    *cubin = (smm_cuda_cubin){0};
    const smm_cuda_status status = smm_cuda_nvrtc(&nvrtc);
    if (status) return status;
    const int row = parameters->kernel;
    snprintf(cubin->name, sizeof cubin->name, "smm_%s_%s", smm_cuda_kernel_names[row], smm_dtypes[problem->dtype].name);
    options o;
    begin(nvrtc, problem->arch, &o);
    describe(problem, parameters, grid, cubin->name, &o);
    if (has_functions[row]) allow_functions(&o);
    return build(nvrtc, kernel_texts[row], &o, cubin);
}

smm_cuda_status smm_cuda_build_program(const char *text, int arch, smm_cuda_cubin *cubin) {
    const smm_nvrtc_functions *nvrtc;
    *cubin = (smm_cuda_cubin){.name = "smm_program"};
    const smm_cuda_status status = smm_cuda_nvrtc(&nvrtc);
    if (status) return status;
    options o;
    begin(nvrtc, arch, &o);
    allow_functions(&o);
    return build(nvrtc, text, &o, cubin);
}

void smm_cuda_free_cubin(smm_cuda_cubin *cubin) {
    free(cubin->data);
    free(cubin->log);
    cubin->data = cubin->log = NULL;
}
