// The weights of every index on the derivative tensor, as exact rationals rounded once.
#pragma once
#include "attribute/attribution.h"

#include <vector>

namespace loopscope {

// w(t) of I(S) = sum_t w(t) D[S][t] for |S| = size in a game of `players`, index of order `order`
// (1 <= size <= order <= players <= 24); players - size + 1 entries, each the double nearest to the
// rational.
//
//             w(t), with M = players - size, s = size, k = order          sum over S
//   sii       (M-t)! t! / (M+1)!          (shapley: s = 1)                shapley: v(N) - v(0)
//   bii       2^-M                        (banzhaf: s = 1)                -
//   chaining  s (M-t)! (s+t-1)! / n!
//   moebius   1 at t = 0;  co_moebius: 1 at t = M
//   stii      s < k: 1 at t = 0;  s = k: (k/n) / C(n-1, t)                s <= k: v(N) - v(0)
//   ksii      from c(r) = sum_{q <= min(k-s, r)} B_q C(r,q) / (r-q+1)     s <= k: v(N) - v(0)
//   fsii      from c(0) = 1; s+r <= k: 0; else (-1)^(k-s) s/(k+s) C(k,s) C(t-1,k) / C(t+k-1,k+s), t
//   = s+r fbii      from c(0) = 1; s+r <= k: 0; else (-1)^(k-s) 2^-r C(r-1, k-s)
// where I(S) = sum_T c(|T|-s) m(T) over supersets T and the dividends m, and
// w(t) = sum_j (-1)^j C(M-t, j) c(t+j).
//
// source  Grabisch and Roubens 1999 (sii, bii); Marichal and Roubens 1999 (chaining); Sundararajan,
// Dhamdhere and
//         Agarwal 2020 (stii); Bordt and von Luxburg 2023 (ksii); Tsai, Yeh and Ravikumar 2023
//         (fsii, fbii)
std::vector<double> index_weights(IndexKind kind, int players, int order, int size);

}  // namespace loopscope
