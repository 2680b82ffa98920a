/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest target: kernels for the atomic ops, tn.Loop among them, and no others. What moves data is a raster of the
   program; ops made of others are taken apart by lower-composites. It shows what a new backend has to write: here each
   kernel is the op's reference function. */
#include "kernel/kernel.h"
#include "ops/op.h"

static uint32_t in_place(const Node *node) { return node->op->flags & OP_ELEMENTWISE ? UINT32_MAX : 0; }

/* Gathers and scatters as counted loops, for which there is a kernel; where no loop is needed, regions. */
static Lowering wants(const OpSchema *op) { return op->flags & OP_LOOPS ? LOWERING_LOOP : LOWERING_GEOMETRY; }

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    (void)prepared;
    return c->node->op->reference(c);
}

/* By domain, then name; a test holds it to the ops' kinds. */
static const char ops[] =
    "Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Bernoulli BitCast BitShift "
    "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CausalConvWithState Ceil Col2Im "
    "Compress ConcatFromSequence Cos Cosh DFT DeformConv Det Div Dropout Equal Erf Exp Floor Greater "
    "GridSample HammingWindow HannWindow Identity If ImageDecoder IsInf IsNaN Less LinearAttention Log "
    "Loop MatMul Max MaxRoiPool MaxUnpool MelWeightMatrix Min Mod Mul Multinomial Neg "
    "NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not Optional OptionalGetElement "
    "OptionalHasElement Or Pow RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range "
    "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum RegexFullMatch Resize RoiAlign RotaryEmbedding "
    "Round STFT Scan SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
    "SequenceLength SequenceMap Shape Shrink Sign Sin Sinh Size SoftmaxCrossEntropyLoss SplitToSequence "
    "Sqrt StringConcat StringNormalizer StringSplit Sub SwiGLU Tan Tanh TfIdfVectorizer TopK Unique Where "
    "Xor ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.CastMap "
    "ai.onnx.ml.CategoryMapper ai.onnx.ml.DictVectorizer ai.onnx.ml.FeatureVectorizer ai.onnx.ml.Imputer "
    "ai.onnx.ml.LabelEncoder ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.Normalizer "
    "ai.onnx.ml.OneHotEncoder ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor ai.onnx.ml.Scaler "
    "ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor "
    "ai.onnx.ml.ZipMap ai.onnx.preview.FlexAttention ai.onnx.preview.training.Adagrad "
    "ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum com.microsoft.Attention "
    "com.microsoft.DynamicQuantizeLSTM com.microsoft.EmbedLayerNormalization "
    "com.microsoft.GroupQueryAttention com.microsoft.MatMulNBits com.microsoft.MultiHeadAttention "
    "com.microsoft.QAttention com.microsoft.RotaryEmbedding tn.Loop tn.Raster tn.View";

const KernelDesc kernel_minimal_atomic = {
    .name = "minimal_atomic",
    .op = ops,
    .place = {.target = TARGET_MINIMAL},
    .wants = wants,
    .priority = -1,
    .strided = strided_all,
    .in_place = in_place,
    .launch = launch,
};
