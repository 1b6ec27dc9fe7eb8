extern "C" void matmul(int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            for (int k = 0; k + 4 <= n; k += 4) {
                s0 += a[i * n + k] * b[k * n + j];
                s1 += a[i * n + k + 1] * b[(k + 1) * n + j];
                s2 += a[i * n + k + 2] * b[(k + 2) * n + j];
                s3 += a[i * n + k + 3] * b[(k + 3) * n + j];
            }
            c[i * n + j] = (s0 + s1) + (s2 + s3);
        }
    }
}
