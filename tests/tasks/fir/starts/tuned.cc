extern "C" void fir(int n, int taps, const float* __restrict__ x, const float* __restrict__ h,
                    float* __restrict__ y) {
    constexpr int block = 512;
    for (int begin = 0; begin < n; begin += block) {
        const int end = n - begin < block ? n : begin + block;
        for (int i = begin; i < end; ++i)
            y[i] = 0.0f;
        for (int t = 0; t < taps; ++t) {
            const float weight = h[t];
            for (int i = begin; i < end; ++i)
                y[i] += weight * x[i + t];
        }
    }
}
