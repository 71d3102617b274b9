/* shuffles_f32.h: what AVX2 and AVX-512 do alike with float32. */

/* 8 x 8 blocks, in 256-bit registers. */
INLINE void block_transpose(block_row x[8]) {
    __m256 p[8], q[8];
    UNROLLED(int i = 0; i < 8; i += 2) { /* pairs of rows: 2 x 2 blocks */
        p[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        p[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    UNROLLED(int i = 0; i < 8; i += 4) { /* fours: 4 x 4 blocks */
        q[i] = _mm256_shuffle_ps(p[i], p[i + 2], 0x44);
        q[i + 1] = _mm256_shuffle_ps(p[i], p[i + 2], 0xee);
        q[i + 2] = _mm256_shuffle_ps(p[i + 1], p[i + 3], 0x44);
        q[i + 3] = _mm256_shuffle_ps(p[i + 1], p[i + 3], 0xee);
    }
    UNROLLED(int j = 0; j < 4; j++) { /* eights */
        x[j] = _mm256_permute2f128_ps(q[j], q[j + 4], 0x20);
        x[j + 4] = _mm256_permute2f128_ps(q[j], q[j + 4], 0x31);
    }
}

/* Of quads of four elements, x[i] element j becomes x[j] element i within each. */
INLINE void lane_transpose_quads(vec x[4]) {
    vec y[4];
    UNROLLED(int i = 0; i < 4; i += 2) {
        y[i] = I(unpacklo)(x[i], x[i + 1]);
        y[i + 1] = I(unpackhi)(x[i], x[i + 1]);
    }
    UNROLLED(int i = 0; i < 2; i++) {
        x[2 * i] = I(shuffle)(y[i], y[i + 2], 0x44);
        x[2 * i + 1] = I(shuffle)(y[i], y[i + 2], 0xee);
    }
}

/* Elements `step` apart: four, and a lane's each. */
INLINE __m128 load_four(const T *p, intptr_t step) {
    const __m128 x = _mm_insert_ps(_mm_load_ss(p), _mm_load_ss(p + step), 0x10);
    return _mm_insert_ps(_mm_insert_ps(x, _mm_load_ss(p + 2 * step), 0x20), _mm_load_ss(p + 3 * step), 0x30);
}
INLINE void lane_store_column(T *p, vec x, intptr_t step) {
    UNROLLED(int l = 0; l < LANES; l++) p[l * step] = x[l];
}
