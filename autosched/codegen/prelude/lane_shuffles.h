// What another lane of the warp gives; `lanes` says which take part. Elements below 32 bits are shuffled as integers.
#define SHUFFLE_LANE(T, value, lane, lanes) ((T)__shfl_sync(lanes, value, lane))
#define GIVEN(site, buffer, index) (buffer)[index]
