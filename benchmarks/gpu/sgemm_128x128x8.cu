// The kernel of products.sgemm in CUDA C++: C = AB of SIZE by SIZE float32. A block of 256 threads
// computes 128 by 128 elements, a thread 8 by 8 of them in four pieces of 4 by 4.
#define SIZE 4096

__global__ void __launch_bounds__(256) sgemm(
    const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C) {
  __shared__ __align__(16) float As[8][128];  // transposed: As[k][row]
  __shared__ __align__(16) float Bs[8][128];
  const int thread = threadIdx.x;
  const int row = blockIdx.y * 128, column = blockIdx.x * 128;
  const int y = thread / 16 * 4, x = thread % 16 * 4;
  const int ay = thread / 2, ax = thread % 2 * 4, by = thread / 32, bx = thread % 32 * 4;
  float sums[8][8] = {};
  float a[8], b[8];
  for (int k = 0; k < SIZE; k += 8) {
    const float4 fromA = *(const float4 *)&A[(row + ay) * SIZE + k + ax];
    const float4 fromB = *(const float4 *)&B[(k + by) * SIZE + column + bx];
    As[ax][ay] = fromA.x;
    As[ax + 1][ay] = fromA.y;
    As[ax + 2][ay] = fromA.z;
    As[ax + 3][ay] = fromA.w;
    *(float4 *)&Bs[by][bx] = fromB;
    __syncthreads();
#pragma unroll
    for (int step = 0; step < 8; step++) {
      *(float4 *)a = *(float4 *)&As[step][y];
      *(float4 *)(a + 4) = *(float4 *)&As[step][y + 64];
      *(float4 *)b = *(float4 *)&Bs[step][x];
      *(float4 *)(b + 4) = *(float4 *)&Bs[step][x + 64];
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sums[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int j = 0; j < 8; j += 4)
      *(float4 *)&C[(row + y + i / 4 * 64 + i % 4) * SIZE + column + x + j / 4 * 64] =
          make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
}
