/* SPDX-License-Identifier: Apache-2.0 */
/* The upgrades that the table in upgrade.c names. */
#ifndef TENON_FORMATS_ONNX_UPGRADE_INT_H
#define TENON_FORMATS_ONNX_UPGRADE_INT_H

#include "formats/onnx/onnx_int.h"

/* upgrade_arith.c */
tn_status upgrade_broadcast(Draft *d);
tn_status upgrade_prelu(Draft *d);
tn_status upgrade_gemm(Draft *d);
tn_status upgrade_cast(Draft *d);
tn_status upgrade_clip(Draft *d);
tn_status upgrade_selu(Draft *d);
tn_status upgrade_affine(Draft *d);
tn_status upgrade_image_scaler(Draft *d);
tn_status upgrade_parametric_softplus(Draft *d);
tn_status upgrade_scaled_tanh(Draft *d);

/* upgrade_shape.c */
tn_status upgrade_reshape(Draft *d);
tn_status upgrade_concat(Draft *d);
tn_status upgrade_pad(Draft *d);
tn_status upgrade_slice(Draft *d);
tn_status upgrade_split_1(Draft *d);
tn_status upgrade_split_sizes(Draft *d);
tn_status upgrade_split_count(Draft *d);
tn_status upgrade_axes(Draft *d);
tn_status upgrade_tile(Draft *d);
tn_status upgrade_topk(Draft *d);
tn_status upgrade_scatter(Draft *d);
tn_status upgrade_constant_fill(Draft *d);

/* upgrade_nn.c */
tn_status upgrade_softmax(Draft *d);
tn_status upgrade_dropout(Draft *d);
tn_status upgrade_batch_norm(Draft *d);
tn_status upgrade_group_norm(Draft *d);
tn_status upgrade_lp_pool(Draft *d);
tn_status upgrade_recurrent(Draft *d);
tn_status upgrade_dft(Draft *d);

/* upgrade_image.c */
tn_status upgrade_upsample(Draft *d);
tn_status upgrade_resize_10(Draft *d);
tn_status upgrade_resize(Draft *d);
tn_status upgrade_roi_align(Draft *d);
tn_status upgrade_grid_sample(Draft *d);

/* upgrade_scan.c */
tn_status upgrade_scan(Draft *d);

/* Takes an attribute away. False when there is none; TN_INVALID_MODEL when it is of another kind is reported by
   `status`. */
bool take_attr(Draft *d, const char *name, AttrKind kind, Attr *out, tn_status *status);
Value *draft_operand(const Draft *d, size_t i); /* NULL beyond the last */
tn_status need_operands(const Draft *d, size_t n);

#endif
