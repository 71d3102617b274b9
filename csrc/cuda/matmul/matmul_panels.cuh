/* matmul_panels.cuh: panels of A and B for matmul_tiled.cuh, which defines the sizes: where their elements lie in
 * shared memory, and who brings them there. */

/* A place in shared memory, behind which others are at constant distances: the compiler would keep many of these in
 * registers, and add what changes to each. */
template <class X> __device__ inline X *base(const X *x) {
    return reinterpret_cast<X *>(at_shared_address(opaque(shared_address(x))));
}

/* Where the elements of a panel of LINES rows of A (columns of B) lie in shared memory: lines side by side, so that a
 * thread reads vectors of them. Tensor cores take single elements, so that terms which memory has side by side (ALONG)
 * stay so; what they take of four real terms, or two complex ones, lies in different banks. */
template <int LINES, bool ALONG> struct Layout {
    static constexpr bool AS_IT_LIES = TENSOR && ALONG;
    static constexpr int PITCH = AS_IT_LIES ? DEPTH + 4 / PARTS
                                 : TENSOR   ? ceil_div(LINES, 16 / PARTS) * (16 / PARTS) + 4
                                            : ceil_div(LINES, WIDEST) * WIDEST + WIDEST;
    static constexpr int ELEMENTS = (AS_IT_LIES ? LINES : DEPTH) * PITCH;
    /* Neighbours in shared memory that are neighbours in memory, too, at most. */
    static constexpr int TOGETHER = !COPIES || (ALONG && !AS_IT_LIES) || (ALONG ? DEPTH : LINES) % WIDEST ? 1 : WIDEST;

    __device__ static constexpr int position(int line, int term) {
        return AS_IT_LIES ? line * PITCH + term : term * PITCH + line;
    }
};

/* Who brings which elements of a panel, W at a time: neighbouring lanes bring neighbours in memory, which are terms if
 * it lies ALONG them, else lines. */
template <int LINES, bool ALONG, int W> struct Panel : Layout<LINES, ALONG> {
    static constexpr int TERMS_AT_ONCE = ALONG ? W : 1, LINES_AT_ONCE = ALONG ? 1 : W;
    static constexpr int ALL_TERMS = DEPTH / TERMS_AT_ONCE, ALL_LINES = LINES / LINES_AT_ONCE;
    /* Lanes with one term. Beyond 8 terms or 32 lines side by side, what they write would meet in few banks. */
    static constexpr int WISHED = ALONG ? LANES / min_of(8, min_of(ALL_TERMS, LANES)) : min_of(32, LANES);
    static constexpr int TEAM = max_of(min_of(WISHED, power_of_two(ALL_LINES)), LANES / ALL_TERMS),
                         TEAMS = LANES / TEAM;
    static constexpr int TERMS = ALL_TERMS / TEAMS, COUNT = ceil_div(ALL_LINES, TEAM);

    Element x[COPIES ? 1 : TERMS][COPIES ? 1 : COUNT];

    __device__ static int term(int lane, int t) {
        return (ALONG ? lane % TEAMS : lane / TEAM) * TERMS_AT_ONCE + terms_on(t);
    }
    __device__ static int line(int lane, int l) {
        return (ALONG ? lane / TEAMS : lane % TEAM) * LINES_AT_ONCE + lines_on(l);
    }
    __device__ static constexpr int terms_on(int t) { return t * TEAMS * TERMS_AT_ONCE; }
    __device__ static constexpr int lines_on(int l) { return l * TEAM * LINES_AT_ONCE; }
    __device__ static bool exists(int lane, int l) { return COUNT * TEAM == ALL_LINES || line(lane, l) < LINES; }

    /* Where a lane's elements are in an image: the first one, and how much further others. */
    __device__ static Element *own(Element *image, int lane) {
        return base(image + Layout<LINES, ALONG>::position(line(lane, 0), term(lane, 0)));
    }
    __device__ static constexpr int further(int t, int l) {
        return Layout<LINES, ALONG>::position(lines_on(l), terms_on(t));
    }
    /* From memory to own(), the first `count` of W elements; zeros take the place of the others. */
    __device__ void bring(Element *to, int lane, int t, int l, const Stored *from, int count) {
        if constexpr (!COPIES)
            x[t][l] = count ? Element(*from) : element_of(0);
        else if (exists(lane, l))
            copy_some<W * sizeof(Element)>(to + further(t, l), from, count * static_cast<int>(sizeof(Element)));
    }
    /* What registers have comes to shared memory. */
    __device__ void put(Element *image, int lane) const {
        if constexpr (!COPIES) {
            Element *const to = own(image, lane);
#pragma unroll
            for (int t = 0; t < TERMS; t++)
#pragma unroll
                for (int l = 0; l < COUNT; l++)
                    if (exists(lane, l)) to[further(t, l)] = x[t][l];
        }
    }
};

/* Which part of A or B a thread brings first: lines from `first` on, of `lines`, and terms from k on. Lines beyond the
 * last are that one. */
struct Begin {
    const Stored *from;
    long long line_step, term_step, first, lines, k;
    int lane;

    __device__ long long line(int l) const { return min64(first + l, lines - 1); }
};

/* A panel of a matrix in memory. EVEN: neighbours in memory follow each other without a gap, lines are all there, and
 * vectors are aligned. */
template <int LINES, bool ALONG, bool EVEN>
struct Given : Panel<LINES, ALONG, EVEN ? Layout<LINES, ALONG>::TOGETHER : 1> {
    static constexpr int W = EVEN ? Layout<LINES, ALONG>::TOGETHER : 1;
    static constexpr bool ONE = EVEN && !ALONG; /* address for all lines */
    typedef Panel<LINES, ALONG, W> P;
    const Stored *at[ONE ? 1 : P::COUNT];
    long long step; /* from term to term */

    __device__ static bool is_even(const Begin &x) {
        const long long to_next = ALONG ? x.term_step : x.line_step, to_others = ALONG ? x.line_step : x.term_step;
        return to_next == 1 && (to_others | (ALONG ? x.k : x.first)) % W == 0 &&
               (ALONG || x.first + LINES <= x.lines) &&
               reinterpret_cast<unsigned long long>(x.from) % (W * sizeof(Stored)) == 0;
    }
    __device__ void begin(const Begin &x, const smm_cuda_images &) {
        step = EVEN && ALONG ? 1 : x.term_step;
#pragma unroll
        for (int l = 0; l < (ONE ? 1 : P::COUNT); l++)
            at[l] = x.from + x.line(P::line(x.lane, l)) * x.line_step + (x.k + P::term(x.lane, 0)) * step;
    }
    __device__ const Stored *from(int t, int l) const {
        return at[ONE ? 0 : l] + (ONE ? P::lines_on(l) : 0) + P::terms_on(t) * (EVEN && ALONG ? 1 : step);
    }
    /* Up to `terms` terms; the next call brings the next ones. */
    __device__ void fetch(Element *image, int terms, int lane, const smm_cuda_images &) {
        Element *const to = P::own(image, lane);
#pragma unroll
        for (int t = 0; t < P::TERMS; t++) {
            const int left = max_of(0, min_of(terms - P::term(lane, t), P::TERMS_AT_ONCE)) * P::LINES_AT_ONCE;
#pragma unroll
            for (int l = 0; l < P::COUNT; l++) P::bring(to, lane, t, l, from(t, l), left);
        }
#pragma unroll
        for (int l = 0; l < (ONE ? 1 : P::COUNT); l++) at[l] += DEPTH * (EVEN && ALONG ? 1 : step);
    }
};

/* A panel of the im2col matrix, whose lines are outputs. In the padding are zeros. */
template <int LINES, bool ALONG> struct Gathered : Panel<LINES, ALONG, 1> {
    typedef Panel<LINES, ALONG, 1> P;
    const Stored *at[P::COUNT];
    int row[P::COUNT], column[P::COUNT];
    int tap[P::TERMS][2], step[2]; /* which element of a filter each term is, and how much further the next panel's */
    long long channel[P::TERMS], channels;

    __device__ static bool is_even(const Begin &) { return true; }
    __device__ void begin(const Begin &x, const smm_cuda_images &images) {
#pragma unroll
        for (int l = 0; l < P::COUNT; l++) {
            const Pixel pixel(images, static_cast<unsigned>(x.line(P::line(x.lane, l))));
            at[l] = x.from + pixel.x + pixel.row * images.row + pixel.column * images.column;
            row[l] = pixel.row;
            column[l] = pixel.column;
        }
        const int across = images.kernel[1], down = images.kernel[0];
#pragma unroll
        for (int t = 0; t < P::TERMS; t++) {
            const long long term = x.k + P::term(x.lane, t);
            tap[t][1] = term % across;
            tap[t][0] = term / across % down;
            channel[t] = term / across / down * images.channel;
        }
        step[1] = DEPTH % across;
        step[0] = DEPTH / across % down;
        channels = DEPTH / across / down * images.channel;
    }
    __device__ void fetch(Element *image, int terms, int lane, const smm_cuda_images &images) {
        Element *const to = P::own(image, lane);
#pragma unroll
        for (int t = 0; t < P::TERMS; t++) {
            const int down = tap[t][0] * images.dilation[0], side = tap[t][1] * images.dilation[1];
            const long long on = channel[t] + down * images.row + side * images.column;
            const bool inside = P::term(lane, t) < terms;
#pragma unroll
            for (int l = 0; l < P::COUNT; l++) {
                const int i = row[l] + down, j = column[l] + side;
                const bool met = inside && static_cast<unsigned>(i) < static_cast<unsigned>(images.inputs[0]) &&
                                 static_cast<unsigned>(j) < static_cast<unsigned>(images.inputs[1]);
                P::bring(to, lane, t, l, at[l] + on, met);
            }
            tap[t][1] += step[1];
            const bool next_row = tap[t][1] >= images.kernel[1];
            if (next_row) tap[t][1] -= images.kernel[1];
            tap[t][0] += step[0] + next_row;
            const bool next_channel = tap[t][0] >= images.kernel[0];
            if (next_channel) tap[t][0] -= images.kernel[0];
            channel[t] += channels + (next_channel ? images.channel : 0);
        }
    }
};
