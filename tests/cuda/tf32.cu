// Multiplies TF32 operands on matrix units: a planted fault for `tests/cli/sass.rs`.
extern "C" __global__ void tf32(float *sums, const unsigned *operands) {
    float c0 = sums[0], c1 = sums[1], c2 = sums[2], c3 = sums[3];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(operands[0]), "r"(operands[1]), "r"(operands[2]), "r"(operands[3]), "r"(operands[4]), "r"(operands[5]));
    sums[0] = c0;
    sums[1] = c1;
    sums[2] = c2;
    sums[3] = c3;
}
