/* transpose_8x8_f32.h: 8 x 8 float32 in 256-bit registers, for AVX2 and AVX-512. */
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
