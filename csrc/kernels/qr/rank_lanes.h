/* rank_lanes.h: how lstsq_lanes.h finds the rank from R: steps of incremental condition estimation (LAPACK's laic1), as
 * csrc/reference/qr.c has it, and a bound that often makes it unnecessary. */

typedef struct extension {
    vec sigma, s, c;
} extension;

INLINE extension select_extension(mask m, extension x, extension y) {
    return (extension){lane_select(m, x.sigma, y.sigma), lane_select(m, x.s, y.s), lane_select(m, x.c, y.c)};
}

INLINE extension of_unit_length(vec sigma, vec s, vec c) {
    const vec length = lane_sqrt(lane_fma(s, s, lane_mul(c, c)));
    return (extension){sigma, lane_div(s, length), lane_div(c, length)};
}

INLINE vec root_less_b(vec root, vec b, vec c) {
    return lane_select(lane_greater(b, lane_set(0)), lane_div(c, lane_add(b, root)), lane_sub(root, b));
}

INLINE mask is_at_most(vec x, vec y) { return lane_greater(y, x) | lane_equal(x, y); }

INLINE extension largest_extension(vec sigma, vec alpha, vec gamma) {
    const vec zero = lane_set(0), one = lane_set(1), roundoff = lane_set(ROUNDOFF), size = lane_abs(gamma);
    const vec y = lane_div(alpha, sigma), z = lane_div(gamma, sigma), yy = lane_mul(y, y), zz = lane_mul(z, z);
    const vec b = lane_mul(lane_sub(one, lane_add(yy, zz)), lane_set((T)0.5));
    const vec t = root_less_b(lane_sqrt(lane_fma(b, b, yy)), b, yy), larger = lane_add(one, t);
    const extension normal = of_unit_length(lane_mul(lane_sqrt(larger), sigma), lane_div(y, t), lane_div(z, larger));
    const extension apart =
        select_extension(lane_greater(size, sigma), (extension){size, zero, one}, (extension){sigma, one, zero});
    return select_extension(is_at_most(lane_abs(alpha), lane_mul(roundoff, sigma)), apart, normal);
}

INLINE extension smallest_extension(vec sigma, vec alpha, vec gamma) {
    const vec zero = lane_set(0), one = lane_set(1), roundoff = lane_set(ROUNDOFF), size = lane_abs(gamma);
    const vec y = lane_div(alpha, sigma), z = lane_div(gamma, sigma), yy = lane_mul(y, y), zz = lane_mul(z, z);
    const mask near_zero = is_at_most(lane_sub(zz, yy), lane_set((T)0.5));
    const vec c = lane_select(near_zero, zz, yy), shift = lane_select(near_zero, one, lane_set(-1));
    const vec b = lane_mul(lane_add(lane_add(yy, zz), shift), lane_set((T)0.5));
    const vec root = lane_sqrt(lane_abs(lane_fma(b, b, lane_select(near_zero, lane_negate(c), c))));
    const vec t = root_less_b(root, b, c), rest = lane_sub(one, t);
    const vec ratio = lane_select(near_zero, t, rest), lost = lane_select(near_zero, rest, t);
    const vec norm = lane_add(lane_max(lane_add(one, yy), zz), lane_mul(lane_abs(y), lane_abs(z)));
    const vec squared = lane_fma(lane_set(4 * ROUNDOFF * ROUNDOFF), norm, ratio);
    extension e =
        of_unit_length(lane_mul(lane_sqrt(squared), sigma), lane_div(y, lost), lane_negate(lane_div(z, ratio)));

    const vec most = lane_max(lane_abs(alpha), size), small = lane_mul(roundoff, sigma);
    extension far = of_unit_length(sigma, lane_negate(lane_div(gamma, most)), lane_div(alpha, most));
    far.sigma = lane_mul(sigma, lane_abs(far.s));
    e = select_extension(is_at_most(sigma, lane_mul(roundoff, most)), far, e);
    const extension apart =
        select_extension(lane_greater(size, sigma), (extension){sigma, one, zero}, (extension){size, zero, one});
    return select_extension(is_at_most(lane_abs(alpha), small) | is_at_most(size, small), apart, e);
}

/* Where no estimate need be made: the columns are so far from depending on each other that all of them count.
 *
 * Of the matrix M with |r_ii| on its diagonal and -|r_ij| right of it, M^-1 has no negative element, and none below the
 * magnitude of R^-1's. So |R^-1|_2 <= |M^-1|_F <= |y|_2 / r_00, where M y = (r_00, r_00, ...). No column of R is longer
 * than r_00: of p columns |R|_2 <= sqrt(p) r_00. The estimates lie between the singular values 1 / |R^-1|_2 and |R|_2,
 * but for rounding, of less than 64 u r_00; half of the smallest is left for that. y: workspace for min(m, n). */
INLINE mask has_full_rank(const elem_matrix *a, vec rtol, vec *y) {
    const intptr_t p = min_of(a->m, a->n);
    const vec one = lane_set(1), first = elem_size(a->at[0]), allowed = lane_max(lane_set(64 * ROUNDOFF), rtol);
    vec squares = lane_set(0);
    for (intptr_t k = 0; k < p; k++) y[k] = first;
    for (intptr_t k = p - 1; k >= 0; k--) {
        const vec x = lane_mul(y[k], lane_div(one, elem_size(a->at[k * a->step + k])));
        squares = lane_fma(x, x, squares);
        for (intptr_t i = k - 1; i >= 0; i--) y[i] = lane_fma(elem_size(a->at[i * a->step + k]), x, y[i]);
    }
    return lane_greater(one, lane_mul(lane_mul(lane_set((T)(4 * p)), squares), lane_mul(allowed, allowed)));
}
