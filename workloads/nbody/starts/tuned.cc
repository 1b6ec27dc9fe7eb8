#include <cmath>

typedef float Lanes __attribute__((vector_size(32)));

extern "C" void nbody(int n, float softening, const float* x, const float* y, const float* z,
                      const float* mass, float* ax, float* ay, float* az) {
    const float soft2 = softening * softening;
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        Lanes xi, yi, zi;
        for (int lane = 0; lane < 8; ++lane) {
            xi[lane] = x[i + lane];
            yi[lane] = y[i + lane];
            zi[lane] = z[i + lane];
        }
        Lanes sx = {}, sy = {}, sz = {};
        for (int j = 0; j < n; ++j) {
            const Lanes dx = x[j] - xi;
            const Lanes dy = y[j] - yi;
            const Lanes dz = z[j] - zi;
            const Lanes d2 = dx * dx + dy * dy + dz * dz + soft2;
            const Lanes weight = mass[j] / (d2 * __builtin_elementwise_sqrt(d2));
            sx += weight * dx;
            sy += weight * dy;
            sz += weight * dz;
        }
        for (int lane = 0; lane < 8; ++lane) {
            ax[i + lane] = sx[lane];
            ay[i + lane] = sy[lane];
            az[i + lane] = sz[lane];
        }
    }
    for (; i < n; ++i) {
        float sx = 0.0f, sy = 0.0f, sz = 0.0f;
        for (int j = 0; j < n; ++j) {
            const float dx = x[j] - x[i];
            const float dy = y[j] - y[i];
            const float dz = z[j] - z[i];
            const float d2 = dx * dx + dy * dy + dz * dz + soft2;
            const float weight = mass[j] / (d2 * std::sqrt(d2));
            sx += weight * dx;
            sy += weight * dy;
            sz += weight * dz;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}
