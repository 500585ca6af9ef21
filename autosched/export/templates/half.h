
// The float16 nearest to x, ties to even, held as a float; too large gives infinity.
static float as_nearest_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits & 0x80000000u, exponent = bits & 0x7f800000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return x;  // NaN
    uint32_t rounded = 0x7f800000u;
    if (magnitude < 0x477ff000u) {
        // Adding a number whose unit is that of the float16 rounds as wanted, and taking it away is exact.
        const uint32_t unit_bits = (exponent < 0x38800000u ? 0x38800000u : exponent) + (13u << 23);
        float value, unit;
        memcpy(&value, &magnitude, sizeof value);
        memcpy(&unit, &unit_bits, sizeof unit);
        const volatile float sum = value + unit;
        value = sum - unit;
        memcpy(&rounded, &value, sizeof rounded);
    }
    rounded |= sign;
    memcpy(&x, &rounded, sizeof x);
    return x;
}
