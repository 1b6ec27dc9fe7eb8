extern "C" void matmul(int n, const float* __restrict__ a, const float* __restrict__ b,
                       float* __restrict__ c) {
    for (int i = 0; i < n; ++i) {
        float* row = c + i * n;
        for (int j = 0; j < n; ++j)
            row[j] = 0.0f;
        int k = 0;
        for (; k + 4 <= n; k += 4) {
            const float a0 = a[i * n + k];
            const float a1 = a[i * n + k + 1];
            const float a2 = a[i * n + k + 2];
            const float a3 = a[i * n + k + 3];
            const float* b0 = b + k * n;
            const float* b1 = b0 + n;
            const float* b2 = b1 + n;
            const float* b3 = b2 + n;
            for (int j = 0; j < n; ++j)
                row[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
        }
        for (; k < n; ++k) {
            const float a0 = a[i * n + k];
            const float* b0 = b + k * n;
            for (int j = 0; j < n; ++j)
                row[j] += a0 * b0[j];
        }
    }
}
