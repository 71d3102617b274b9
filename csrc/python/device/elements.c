/* elements.c: types of elements by the names that NumPy, DLPack and the CUDA array interface have for them. */
#include "buffers.h"

/* NumPy's little-endian number types, the only ones on devices. What ml_dtypes calls "<V2" is bfloat16, which is none
 * of NumPy's own: a type without meaning is "|V2" to it. */
static const struct {
    const char *name;
    DLDataType dtype;
    int type;
} elements[] = {
    {"b1", {kDLBool, 8, 1}, NPY_BOOL},          {"i1", {kDLInt, 8, 1}, NPY_INT8},
    {"i2", {kDLInt, 16, 1}, NPY_INT16},         {"i4", {kDLInt, 32, 1}, NPY_INT32},
    {"i8", {kDLInt, 64, 1}, NPY_INT64},         {"u1", {kDLUInt, 8, 1}, NPY_UINT8},
    {"u2", {kDLUInt, 16, 1}, NPY_UINT16},       {"u4", {kDLUInt, 32, 1}, NPY_UINT32},
    {"u8", {kDLUInt, 64, 1}, NPY_UINT64},       {"f2", {kDLFloat, 16, 1}, NPY_FLOAT16},
    {"f4", {kDLFloat, 32, 1}, NPY_FLOAT32},     {"f8", {kDLFloat, 64, 1}, NPY_FLOAT64},
    {"c8", {kDLComplex, 64, 1}, NPY_COMPLEX64}, {"c16", {kDLComplex, 128, 1}, NPY_COMPLEX128},
    {"V2", {kDLBfloat, 16, 1}, NPY_NOTYPE},
};
enum { ELEMENTS = sizeof elements / sizeof *elements };

bool smm_take_typestr(PyObject *x, DLDataType *dtype) {
    const char *text = x && PyUnicode_Check(x) ? PyUnicode_AsUTF8(x) : NULL;
    PyErr_Clear();
    if (!text || !*text || !strchr("<|=", *text) || (size_t)PyUnicode_GET_LENGTH(x) != strlen(text)) return false;
    for (int i = 0; i < ELEMENTS; i++) {
        *dtype = elements[i].dtype;
        if (!strcmp(text + 1, elements[i].name)) return dtype->code != kDLBfloat || *text == '<';
    }
    return false;
}

int smm_numpy_of_dlpack(DLDataType dtype) {
    for (int i = 0; i < ELEMENTS; i++)
        if (!memcmp(&elements[i].dtype, &dtype, sizeof dtype)) return elements[i].type;
    return NPY_NOTYPE;
}

DLDataType smm_dlpack_of_numpy(int type) {
    int i = 0;
    while (i < ELEMENTS - 1 && elements[i].type != type) i++;
    return elements[i].dtype;
}

const char *smm_dtype_name(DLDataType dtype, char name[SMM_DTYPE_NAME]) {
    static const char *const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
    const bool is_known = dtype.code < sizeof kinds / sizeof *kinds;
    if (dtype.code == kDLBool && dtype.bits == 8) return "bool";
    snprintf(name, SMM_DTYPE_NAME, "%s%d", is_known ? kinds[dtype.code] : "other", dtype.bits);
    return name;
}
