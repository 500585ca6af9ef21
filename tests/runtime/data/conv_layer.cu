// computes output; with conv
KERNEL(conv_layer_output, 256)(
    GLOBAL_IN(float, bias, 128),
    GLOBAL_IN(float, filter, 147456),
    GLOBAL_IN(float, input, 5352960),
    GLOBAL_OUT(float, output, 5120000))
{
    const int n_b = blockIdx.z;  // 5 blocks
    const int y_b = blockIdx.y;  // 20 blocks
    const int x_b = blockIdx.x;  // 13 blocks
    if (x_b <= 11) {  // interior: no clamps, no guards
        // output: this block's tile
        {
            const int y_t = threadIdx.z;  // y: 2 threads
            const int x_t = threadIdx.y;  // x: 8 threads
            const int c_t = threadIdx.x;  // c: 16 threads
            UNROLL
            for (int y_s = 0; y_s < 2; y_s++) {  // y: 2 points
                ITER(0, y_s);
                REGISTER(float, conv, 8);
                const int bias_at1 = 8*c_t;
                const auto bias_x4 = LOAD_VECTOR(0, float, 4, bias, bias_at1);
                const float bias_v1 = bias_x4.at[0];
                STORE(1, conv, 0, bias_v1);
                const float bias_v2 = bias_x4.at[1];
                STORE(2, conv, 1, bias_v2);
                const float bias_v3 = bias_x4.at[2];
                STORE(3, conv, 2, bias_v3);
                const float bias_v4 = bias_x4.at[3];
                STORE(4, conv, 3, bias_v4);
                const auto bias_x4_1 = LOAD_VECTOR(5, float, 4, bias, bias_at1 + 4);
                const float bias_v5 = bias_x4_1.at[0];
                STORE(6, conv, 4, bias_v5);
                const float bias_v6 = bias_x4_1.at[1];
                STORE(7, conv, 5, bias_v6);
                const float bias_v7 = bias_x4_1.at[2];
                STORE(8, conv, 6, bias_v7);
                const float bias_v8 = bias_x4_1.at[3];
                STORE(9, conv, 7, bias_v8);
                for (int r_y = 0; r_y < 3; r_y++) {  // r.y: 3 terms
                    ITER(1, r_y);
                    for (int r_x = 0; r_x < 3; r_x++) {  // r.x: 3 terms
                        ITER(2, r_x);
                        for (int r_c = 0; r_c < 128; r_c++) {  // r.c: 128 terms
                            ITER(3, r_c);
                            const int input_at = 1070592*n_b + 52224*y_b + 26112*y_t + 13056*r_y + 13056*y_s + 1024*x_b + 128*r_x + 128*x_t + r_c;
                            const float input_v = LOAD(10, input, input_at);
                            const float conv_v2 = LOAD(11, conv, 0);
                            const int filter_at1 = 1152*r_c + 384*r_y + 128*r_x + 8*c_t;
                            const auto filter_x4 = LOAD_VECTOR(12, float, 4, filter, filter_at1);
                            const float filter_v1 = filter_x4.at[0];
                            STORE(13, conv, 0, conv_v2 + (filter_v1 * input_v));
                            const float conv_v3 = LOAD(14, conv, 1);
                            const float filter_v2 = filter_x4.at[1];
                            STORE(15, conv, 1, conv_v3 + (filter_v2 * input_v));
                            const float conv_v4 = LOAD(16, conv, 2);
                            const float filter_v3 = filter_x4.at[2];
                            STORE(17, conv, 2, conv_v4 + (filter_v3 * input_v));
                            const float conv_v5 = LOAD(18, conv, 3);
                            const float filter_v4 = filter_x4.at[3];
                            STORE(19, conv, 3, conv_v5 + (filter_v4 * input_v));
                            const float conv_v6 = LOAD(20, conv, 4);
                            const auto filter_x4_1 = LOAD_VECTOR(21, float, 4, filter, filter_at1 + 4);
                            const float filter_v5 = filter_x4_1.at[0];
                            STORE(22, conv, 4, conv_v6 + (filter_v5 * input_v));
                            const float conv_v7 = LOAD(23, conv, 5);
                            const float filter_v6 = filter_x4_1.at[1];
                            STORE(24, conv, 5, conv_v7 + (filter_v6 * input_v));
                            const float conv_v8 = LOAD(25, conv, 6);
                            const float filter_v7 = filter_x4_1.at[2];
                            STORE(26, conv, 6, conv_v8 + (filter_v7 * input_v));
                            const float conv_v9 = LOAD(27, conv, 7);
                            const float filter_v8 = filter_x4_1.at[3];
                            STORE(28, conv, 7, conv_v9 + (filter_v8 * input_v));
                        }
                    }
                }
                const float conv_v1_1 = LOAD(29, conv, 0);
                const int output_at1 = 1024000*n_b + 51200*y_b + 25600*y_t + 12800*y_s + 1024*x_b + 128*x_t + 8*c_t;
                const float output_e = as_max_f32(conv_v1_1, 0.0f);
                const float conv_v1_2 = LOAD(30, conv, 1);
                const float output_e1 = as_max_f32(conv_v1_2, 0.0f);
                const float conv_v1_3 = LOAD(31, conv, 2);
                const float output_e2 = as_max_f32(conv_v1_3, 0.0f);
                const float conv_v1_4 = LOAD(32, conv, 3);
                const float output_e3 = as_max_f32(conv_v1_4, 0.0f);
                STORE_VECTOR(33, float, 4, output, output_at1, output_e, output_e1, output_e2, output_e3);
                const float conv_v1_5 = LOAD(34, conv, 4);
                const float output_e4 = as_max_f32(conv_v1_5, 0.0f);
                const float conv_v1_6 = LOAD(35, conv, 5);
                const float output_e5 = as_max_f32(conv_v1_6, 0.0f);
                const float conv_v1_7 = LOAD(36, conv, 6);
                const float output_e6 = as_max_f32(conv_v1_7, 0.0f);
                const float conv_v1_8 = LOAD(37, conv, 7);
                const float output_e7 = as_max_f32(conv_v1_8, 0.0f);
                STORE_VECTOR(38, float, 4, output, output_at1 + 4, output_e4, output_e5, output_e6, output_e7);
            }
        }
    } else {
        // output: this block's tile
        {
            const int y_t = threadIdx.z;  // y: 2 threads
            const int x_t = threadIdx.y;  // x: 8 threads
            const int c_t = threadIdx.x;  // c: 16 threads
            UNROLL
            for (int y_s = 0; y_s < 2; y_s++) {  // y: 2 points
                ITER(0, y_s);
                REGISTER(float, conv, 8);
                UNROLL
                for (int c_s1 = 0; c_s1 < 8; c_s1++) {  // c: 8 points
                    ITER(1, c_s1);
                    if (8*x_b + x_t <= 99) {
                        const int bias_at = 8*c_t + c_s1;
                        const float bias_v = LOAD(39, bias, bias_at);
                        STORE(40, conv, c_s1, bias_v);
                    }
                }
                for (int r_y = 0; r_y < 3; r_y++) {  // r.y: 3 terms
                    ITER(1, r_y);
                    for (int r_x = 0; r_x < 3; r_x++) {  // r.x: 3 terms
                        ITER(2, r_x);
                        for (int r_c = 0; r_c < 128; r_c++) {  // r.c: 128 terms
                            ITER(3, r_c);
                            UNROLL
                            for (int c_s2 = 0; c_s2 < 8; c_s2++) {  // c: 8 points
                                ITER(4, c_s2);
                                if (8*x_b + x_t <= 99) {
                                    const float conv_v = LOAD(41, conv, c_s2);
                                    const int filter_at = 1152*r_c + 384*r_y + 128*r_x + 8*c_t + c_s2;
                                    const float filter_v = LOAD(42, filter, filter_at);
                                    const int input_at = 1070592*n_b + 52224*y_b + 26112*y_t + 13056*r_y + 13056*y_s + 1024*x_b + 128*r_x + 128*x_t + r_c;
                                    const float input_v = LOAD(43, input, input_at);
                                    STORE(44, conv, c_s2, conv_v + (filter_v * input_v));
                                }
                            }
                        }
                    }
                }
                UNROLL
                for (int c_s = 0; c_s < 8; c_s++) {  // c: 8 points
                    ITER(1, c_s);
                    if (8*x_b + x_t <= 99) {
                        const float conv_v1 = LOAD(45, conv, c_s);
                        const int output_at = 1024000*n_b + 51200*y_b + 25600*y_t + 12800*y_s + 1024*x_b + 128*x_t + 8*c_t + c_s;
                        STORE(46, output, output_at, as_max_f32(conv_v1, 0.0f));
                    }
                }
            }
        }
    }
}
