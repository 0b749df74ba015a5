/* Stand-in for cuBLASLt without a GPU, for tests. It computes matmuls of column-major matrices on the host, without transposition, in
 * the formats of the matrix layouts and of the matmul description.
 *
 *   STANDIN_CUBLAS_STATUS  status of cublasLtMatmul (default: 0)
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int status;
enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
/* cudaDataType */
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
/* cublasComputeType_t */
enum { COMPUTE_16F = 64, COMPUTE_32F = 68, COMPUTE_64F = 70, FAST_16BF = 75, FAST_TF32 = 77 };

struct layout { int type; uint64_t rows, columns; int64_t leading; };
struct description { int compute, scale; };
/* cublasLtMatmulHeuristicResult_t */
struct heuristic { uint64_t algorithm[8]; size_t workspace; status state; float waves; int reserved[4]; };

static float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Rounds to a float with `dropped` fewer fraction bits, to nearest with ties to even. */
static float round_bits(float value, int dropped) {
    uint32_t bits = bits_from_float(value), half = (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return float_from_bits((bits + half) & ~((1u << dropped) - 1));
}

static double load(const void *data, int type, size_t index) {
    switch (type) {
    case R_64F: return ((const double *)data)[index];
    case R_32F: return ((const float *)data)[index];
    case R_16BF: return float_from_bits((uint32_t)((const uint16_t *)data)[index] << 16);
    default: return (double)((const _Float16 *)data)[index];
    }
}

static void store(void *data, int type, size_t index, double value) {
    switch (type) {
    case R_64F: ((double *)data)[index] = value; break;
    case R_32F: ((float *)data)[index] = (float)value; break;
    case R_16BF: ((uint16_t *)data)[index] = (uint16_t)(bits_from_float(round_bits((float)value, 16)) >> 16); break;
    default: ((_Float16 *)data)[index] = (_Float16)value;
    }
}

/* Rounds an operand to the input format of the multiplier. */
static double round_operand(double value, int compute) {
    switch (compute) {
    case FAST_TF32: return round_bits((float)value, 13);
    case FAST_16BF: return round_bits((float)value, 16);
    default: return value;
    }
}

static double scale_factor(const void *data, int scale) { return load(data, scale, 0); }

size_t cublasLtGetVersion(void) { return 130100; }
status cublasLtCreate(void **handle) { *handle = malloc(1); return 0; }
status cublasLtDestroy(void *handle) { free(handle); return 0; }

status cublasLtMatmulDescCreate(void **description, int compute, int scale) {
    struct description *created = malloc(sizeof *created);
    *created = (struct description){ compute, scale };
    *description = created;
    return 0;
}
status cublasLtMatmulDescDestroy(void *description) { free(description); return 0; }

status cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    struct layout *created = malloc(sizeof *created);
    *created = (struct layout){ type, rows, columns, leading };
    *layout = created;
    return leading >= (int64_t)rows ? 0 : INVALID_VALUE;
}
status cublasLtMatrixLayoutDestroy(void *layout) { free(layout); return 0; }

status cublasLtMatmulPreferenceCreate(void **preference) { *preference = malloc(1); return 0; }
status cublasLtMatmulPreferenceDestroy(void *preference) { free(preference); return 0; }
status cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
    return bytes == 8 ? 0 : INVALID_VALUE;
}

/* Returns true for a supported combination of operand, sum and scale formats: see the table of cublasLtMatmul in NVIDIA's documentation. */
static int is_supported(const struct description *description, int type) {
    switch (type) {
    case R_64F: return description->compute == COMPUTE_64F && description->scale == R_64F;
    case R_32F:
        return (description->compute == COMPUTE_32F || description->compute == FAST_TF32 || description->compute == FAST_16BF) &&
               description->scale == R_32F;
    case R_16BF: return description->compute == COMPUTE_32F && description->scale == R_32F;
    default:
        return (description->compute == COMPUTE_32F && description->scale == R_32F) ||
               (description->compute == COMPUTE_16F && description->scale == R_16F);
    }
}

status cublasLtMatmulAlgoGetHeuristic(void *handle, struct description *description, struct layout *a, struct layout *b, struct layout *c,
                                      struct layout *d, void *preference, int wanted, struct heuristic *results, int *found) {
    *found = a->type == b->type && b->type == c->type && c->type == d->type && is_supported(description, a->type);
    memset(results, 0, sizeof *results);
    return *found ? 0 : NOT_SUPPORTED;
}

status cublasLtMatmul(void *handle, const struct description *description, const void *alpha, const void *a, const struct layout *layout_a,
                      const void *b, const struct layout *layout_b, const void *beta, const void *c, const struct layout *layout_c, void *d,
                      const struct layout *layout_d, const void *algorithm, void *workspace, size_t bytes, void *stream) {
    const char *status_text = getenv("STANDIN_CUBLAS_STATUS");
    if (status_text) return atoi(status_text);
    if (layout_a->columns != layout_b->rows || layout_a->rows != layout_d->rows || layout_b->columns != layout_d->columns)
        return INVALID_VALUE;
    if (scale_factor(beta, description->scale) != 0) return NOT_SUPPORTED;
    for (uint64_t column = 0; column < layout_d->columns; column++)
        for (uint64_t row = 0; row < layout_d->rows; row++) {
            double sum = 0;
            for (uint64_t k = 0; k < layout_a->columns; k++) {
                double product = round_operand(load(a, layout_a->type, row + k * layout_a->leading), description->compute) *
                                 round_operand(load(b, layout_b->type, k + column * layout_b->leading), description->compute);
                sum = description->compute == COMPUTE_16F ? (double)(_Float16)(sum + product) : sum + product;
            }
            store(d, layout_d->type, row + column * layout_d->leading, scale_factor(alpha, description->scale) * sum);
        }
    return 0;
}
