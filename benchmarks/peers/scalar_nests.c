/* The nests of computations/scalar_nests.py in C: the same loops in the same order, on restrict arrays.
 *
 * Sizes come from the command line, as -Dblocked_n=512. Each `for` has a line of its own, so that
 * a message of the compiler about a line is about one loop.
 */

#include <math.h>
#include <stdint.h>

#define IN(name) const float name
#define OUT(name) float name

static const float ALPHA = 1.5f, BETA = 1.25f;

#define N blocked_n
void blocked(IN(A)[restrict N][N], IN(B)[restrict N][N], OUT(C)[restrict N][N])
{
    for (int xo = 0; xo < N / 32; xo++)
        for (int yo = 0; yo < N / 32; yo++) {
            for (int xi = 0; xi < 32; xi++)
                for (int yi = 0; yi < 32; yi++)
                    C[xo * 32 + xi][yo * 32 + yi] = 0;
            for (int ko = 0; ko < N / 4; ko++)
                for (int ki = 0; ki < 4; ki++)
                    for (int xi = 0; xi < 32; xi++)
                        for (int yi = 0; yi < 32; yi++)
                            C[xo * 32 + xi][yo * 32 + yi] +=
                                A[xo * 32 + xi][ko * 4 + ki] * B[ko * 4 + ki][yo * 32 + yi];
        }
}
#undef N

#define N naive_n
void naive(IN(A)[restrict N][N], IN(B)[restrict N][N], OUT(C)[restrict N][N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            C[i][j] = 0;
            for (int k = 0; k < N; k++)
                C[i][j] += A[i][k] * B[k][j];
        }
}
#undef N

#define N gemm_n
void gemm(IN(A)[restrict N][N], IN(B)[restrict N][N], IN(C)[restrict N][N], OUT(T)[restrict N][N],
          OUT(D)[restrict N][N])
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            T[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                T[i][j] += A[i][k] * ALPHA * B[k][j];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            D[i][j] = T[i][j] + C[i][j] * BETA;
}
#undef N

#define N two_mm_n
void two_mm(IN(A)[restrict N][N], IN(B)[restrict N][N], IN(C)[restrict N][N],
            IN(E)[restrict N][N], OUT(T)[restrict N][N], OUT(U)[restrict N][N],
            OUT(D)[restrict N][N])
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            T[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                T[i][j] += A[i][k] * ALPHA * B[k][j];
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            U[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                U[i][j] += T[i][k] * C[k][j];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            D[i][j] = U[i][j] + E[i][j] * BETA;
}
#undef N

#define N atax_n
void atax(IN(A)[restrict N][N], IN(x)[restrict N], OUT(t)[restrict N], OUT(y)[restrict N])
{
    for (int i = 0; i < N; i++) {
        t[i] = 0;
        for (int j = 0; j < N; j++)
            t[i] += A[i][j] * x[j];
    }
    for (int j = 0; j < N; j++)
        y[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            y[j] += A[i][j] * t[i];
}
#undef N

#define N bicg_n
void bicg(IN(A)[restrict N][N], IN(r)[restrict N], IN(p)[restrict N], OUT(u)[restrict N],
          OUT(v)[restrict N], OUT(w)[restrict N])
{
    for (int j = 0; j < N; j++)
        u[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            u[j] += A[i][j] * r[i];
    for (int i = 0; i < N; i++) {
        v[i] = 0;
        for (int j = 0; j < N; j++)
            v[i] += A[i][j] * p[j];
    }
    for (int i = 0; i < N; i++)
        w[i] = u[i] + v[i];
}
#undef N

#define N mvt_n
void mvt(IN(A)[restrict N][N], IN(y)[restrict N], IN(z)[restrict N], IN(x)[restrict N],
         OUT(u)[restrict N], OUT(v)[restrict N], OUT(w)[restrict N])
{
    for (int i = 0; i < N; i++) {
        u[i] = 0;
        for (int j = 0; j < N; j++)
            u[i] += A[i][j] * y[j];
    }
    for (int j = 0; j < N; j++)
        v[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            v[j] += A[i][j] * z[i];
    for (int i = 0; i < N; i++)
        w[i] = x[i] + u[i] + v[i];
}
#undef N

#define N gesummv_n
void gesummv(IN(A)[restrict N][N], IN(B)[restrict N][N], IN(x)[restrict N], OUT(t)[restrict N],
             OUT(u)[restrict N], OUT(y)[restrict N])
{
    for (int i = 0; i < N; i++) {
        t[i] = 0;
        for (int j = 0; j < N; j++)
            t[i] += A[i][j] * x[j];
    }
    for (int i = 0; i < N; i++) {
        u[i] = 0;
        for (int j = 0; j < N; j++)
            u[i] += B[i][j] * x[j];
    }
    for (int i = 0; i < N; i++)
        y[i] = t[i] * ALPHA + u[i] * BETA;
}
#undef N

#define N gemver_n
void gemver(IN(A)[restrict N][N], IN(p)[restrict N], IN(q)[restrict N], IN(u)[restrict N],
            IN(v)[restrict N], IN(y)[restrict N], OUT(H)[restrict N][N], OUT(x)[restrict N],
            OUT(w)[restrict N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            H[i][j] = A[i][j] + p[i] * q[j] + u[i] * v[j];
    for (int j = 0; j < N; j++)
        x[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            x[j] += H[i][j] * y[i];
    for (int i = 0; i < N; i++) {
        w[i] = 0;
        for (int j = 0; j < N; j++)
            w[i] += H[i][j] * x[j];
    }
}
#undef N

#define N syrk_n
void syrk(IN(A)[restrict N][N], OUT(C)[restrict N][N])
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            C[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                C[i][j] += A[i][k] * A[j][k];
    }
}
#undef N

#define N doitgen_n
#define P doitgen_p
void doitgen(IN(A)[restrict N][N][P], IN(C)[restrict P][P], OUT(S)[restrict N][N][P])
{
    for (int r = 0; r < N; r++)
        for (int q = 0; q < N; q++) {
            for (int j = 0; j < P; j++)
                S[r][q][j] = 0;
            for (int k = 0; k < P; k++)
                for (int j = 0; j < P; j++)
                    S[r][q][j] += A[r][q][k] * C[k][j];
        }
}
#undef N
#undef P

#define N covariance_n
#define M covariance_m
void covariance(IN(D)[restrict N][M], OUT(S)[restrict M], OUT(Z)[restrict N][M],
                OUT(G)[restrict M][M], OUT(V)[restrict M][M])
{
    for (int j = 0; j < M; j++)
        S[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            S[j] += D[i][j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            Z[i][j] = D[i][j] - S[j] * (1.0f / N);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < M; j++)
            G[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < M; j++)
                G[i][j] += Z[k][i] * Z[k][j];
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            V[i][j] = G[i][j] * (1.0f / (N - 1));
}
#undef N
#undef M

#define N correlation_n
#define M correlation_m
void correlation(IN(D)[restrict N][M], OUT(S)[restrict M], OUT(Z)[restrict N][M],
                 OUT(Q)[restrict M], OUT(U)[restrict N][M], OUT(G)[restrict M][M])
{
    for (int j = 0; j < M; j++)
        S[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            S[j] += D[i][j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            Z[i][j] = D[i][j] - S[j] * (1.0f / N);
    for (int j = 0; j < M; j++)
        Q[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            Q[j] += Z[i][j] * Z[i][j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            U[i][j] = Z[i][j] / sqrtf(Q[j]);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < M; j++)
            G[i][j] = 0;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < M; j++)
                G[i][j] += U[k][i] * U[k][j];
    }
}
#undef N
#undef M

#define N jacobi_1d_n
void jacobi_1d(IN(A)[restrict N + 2], OUT(B)[restrict N])
{
    for (int i = 0; i < N; i++)
        B[i] = (A[i] + A[i + 1] + A[i + 2]) * 0.25f;
}
#undef N

#define N jacobi_2d_n
void jacobi_2d(IN(A)[restrict N + 2][N + 2], OUT(B)[restrict N][N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            B[i][j] = (A[i + 1][j + 1] + A[i + 1][j] + A[i + 1][j + 2] + A[i + 2][j + 1] +
                       A[i][j + 1]) * 0.25f;
}
#undef N

#define N heat_3d_n
void heat_3d(IN(A)[restrict N + 2][N + 2][N + 2], OUT(B)[restrict N][N][N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) {
                float here = A[i + 1][j + 1][k + 1];
                B[i][j][k] =
                    (A[i + 2][j + 1][k + 1] - here * 2.0f + A[i][j + 1][k + 1]) * 0.125f +
                    (A[i + 1][j + 2][k + 1] - here * 2.0f + A[i + 1][j][k + 1]) * 0.125f +
                    (A[i + 1][j + 1][k + 2] - here * 2.0f + A[i + 1][j + 1][k]) * 0.125f + here;
            }
}
#undef N

#define K convolution_c
#define N convolution_n
void convolution(IN(X)[restrict K][N + 2][N + 2], IN(W)[restrict K][K][3][3],
                 OUT(Y)[restrict K][N][N])
{
    for (int o = 0; o < K; o++)
        for (int y = 0; y < N; y++) {
            for (int x = 0; x < N; x++)
                Y[o][y][x] = 0;
            for (int c = 0; c < K; c++)
                for (int v = 0; v < 3; v++)
                    for (int u = 0; u < 3; u++)
                        for (int x = 0; x < N; x++)
                            Y[o][y][x] += X[c][y + v][x + u] * W[o][c][v][u];
        }
}
#undef K
#undef N

#define K planes_c
#define N planes_n
void planes(IN(X)[restrict K][N + 2][N + 2], IN(W)[restrict K][K][3][3],
            OUT(Y)[restrict K][N][N])
{
    for (int o = 0; o < K; o++) {
        for (int y = 0; y < N; y++)
            for (int x = 0; x < N; x++)
                Y[o][y][x] = 0;
        for (int c = 0; c < K; c++)
            for (int v = 0; v < 3; v++)
                for (int u = 0; u < 3; u++)
                    for (int y = 0; y < N; y++)
                        for (int x = 0; x < N; x++)
                            Y[o][y][x] += X[c][y + v][x + u] * W[o][c][v][u];
    }
}
#undef K
#undef N

#define N blur_n
void blur(IN(A)[restrict N + 2][N + 2], OUT(H)[restrict N + 2][N], OUT(B)[restrict N][N])
{
    for (int y = 0; y < N + 2; y++)
        for (int x = 0; x < N; x++)
            H[y][x] = (A[y][x] + A[y][x + 1] + A[y][x + 2]) * (1.0f / 3);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            B[y][x] = (H[y][x] + H[y + 1][x] + H[y + 2][x]) * (1.0f / 3);
}
#undef N

#define N chain_n
void chain(IN(A)[restrict N], IN(B)[restrict N], IN(C)[restrict N], OUT(D)[restrict N])
{
    for (int i = 0; i < N; i++)
        D[i] = (A[i] * B[i] + C[i] > 0 ? A[i] * B[i] + C[i] : 0.0f) * C[i];
}
#undef N

#define N adam_n
void adam(IN(P)[restrict N], IN(G)[restrict N], IN(V)[restrict N], OUT(W)[restrict N],
          OUT(Q)[restrict N])
{
    for (int i = 0; i < N; i++)
        W[i] = V[i] * V[i] * 0.9f + G[i] * G[i] * 0.1f;
    for (int i = 0; i < N; i++)
        Q[i] = P[i] - G[i] * 0.01f / (sqrtf(W[i]) + 1e-3f);
}
#undef N

#define N tiles_n
void tiles(IN(A)[restrict N][N], IN(B)[restrict N][N], OUT(C)[restrict N][N])
{
    for (int yo = 0; yo < N / 16; yo++)
        for (int xo = 0; xo < N / 16; xo++)
            for (int yi = 0; yi < 16; yi++)
                for (int xi = 0; xi < 16; xi++)
                    C[yo * 16 + yi][xo * 16 + xi] = A[yo * 16 + yi][xo * 16 + xi] * 0.25f +
                                                    B[yo * 16 + yi][xo * 16 + xi] * 0.75f;
}
#undef N

#define N softmax_n
#define M softmax_m
void softmax(IN(X)[restrict N][M], OUT(L)[restrict N], OUT(E)[restrict N][M], OUT(S)[restrict N],
             OUT(Y)[restrict N][M])
{
    for (int i = 0; i < N; i++) {
        L[i] = -INFINITY;
        for (int j = 0; j < M; j++)
            L[i] = X[i][j] > L[i] ? X[i][j] : L[i];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            E[i][j] = expf(X[i][j] - L[i]);
    for (int i = 0; i < N; i++) {
        S[i] = 0;
        for (int k = 0; k < M; k++)
            S[i] += E[i][k];
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            Y[i][j] = E[i][j] / S[i];
}
#undef N
#undef M

#define N row_sum_n
void row_sum(IN(A)[restrict N][N], OUT(S)[restrict N])
{
    for (int i = 0; i < N; i++) {
        S[i] = 0;
        for (int j = 0; j < N; j++)
            S[i] += A[i][j];
    }
}
#undef N

#define N column_sum_n
void column_sum(IN(A)[restrict N][N], OUT(S)[restrict N])
{
    for (int j = 0; j < N; j++)
        S[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            S[j] += A[i][j];
}
#undef N

#define N integer_dot_n
void integer_dot(const int32_t A[restrict N][N], const int32_t B[restrict N][N],
                 int32_t S[restrict N])
{
    for (int i = 0; i < N; i++) {
        S[i] = 0;
        for (int j = 0; j < N; j++)
            S[i] += A[i][j] * B[i][j];
    }
}
#undef N
