/* SPDX-License-Identifier: Apache-2.0 */
/* WebP files in memory, by libwebp; what shows through is black. */
#include <webp/decode.h>

#include "ops/image_int.h"

static bool read_webp(Str file, WebPDecoderConfig *config, uint8_t *to, int64_t samples) {
    WebPRGBABuffer *out = &config->output.u.RGBA;
    config->output.colorspace = samples == 4 ? MODE_rgbA : MODE_RGB; /* rgbA: multiplied by alpha */
    config->output.is_external_memory = 1;
    out->rgba = to;
    out->stride = (int)samples * config->input.width;
    out->size = (size_t)samples * (size_t)config->input.width * (size_t)config->input.height;
    bool done = WebPDecode((const uint8_t *)file.s, file.n, config) == VP8_STATUS_OK;
    WebPFreeDecBuffer(&config->output);
    return done;
}

tn_status decode_webp(Arena *arena, Str file, Image *image) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return fail(TN_UNSUPPORTED, "libwebp is older than its header");
    if (WebPGetFeatures((const uint8_t *)file.s, file.n, &config.input) != VP8_STATUS_OK) return TN_OK;
    if (config.input.has_animation) return fail(TN_UNSUPPORTED, "the WebP file is an animation");
    int64_t samples = config.input.has_alpha ? 4 : 3, count = (int64_t)config.input.width * config.input.height;
    TRY(image_room(image, config.input.width, config.input.height, 3 + 2 * samples)); /* libwebp keeps one more */
    TRY(image_new(arena, config.input.width, config.input.height, image));
    uint8_t *to = samples == 3 ? image->pixels : arena_array(arena, uint8_t, (size_t)(samples * count));
    if (!to) return TN_OUT_OF_MEMORY;
    if (!read_webp(file, &config, to, samples)) {
        image->pixels = NULL;
        return TN_OK;
    }
    for (int64_t i = 0; samples == 4 && i < count; i++) memcpy(image->pixels + 3 * i, to + 4 * i, 3);
    return TN_OK;
}
