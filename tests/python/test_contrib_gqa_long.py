# SPDX-License-Identifier: Apache-2.0
"""GroupQueryAttention of com.microsoft against onnxruntime, where that is installed: random instances, also of what
numpy says the op's text means."""
import sys

import tenonrt_env
from harness import SKIPPED, Report

tenonrt_env.enter()
import numpy as np  # noqa: E402
import tenonrt  # noqa: E402
from gqa_instances import Instance  # noqa: E402

try:
    import onnxruntime
except ImportError:
    print("SKIPPED: onnxruntime is not installed")
    sys.exit(SKIPPED)

INSTANCES = 1500


def close(x, y, tolerance):
    if x.dtype.kind in "iu":  # of halves some levels may round the other way
        return np.count_nonzero(x != y) <= (x.size // 50 + 4 if tolerance > 1e-2 else 0)
    return x.shape == y.shape and np.allclose(x, y, rtol=tolerance, atol=tolerance)


def main():
    report, options = Report(), onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for seed in range(INSTANCES):
        # of halves onnxruntime rounds what is in between, too
        dtype, tolerance = (np.float16, 4e-2) if seed % 5 == 4 else (np.float32, 5e-5)
        instance = Instance(seed, dtype, norms=False)
        model = instance.model()
        theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, instance.feeds)
        ours = tenonrt.InferenceSession(model).run(None, instance.feeds)
        what = f"{seed} {instance.mode} {instance.attributes} {[(n, a.shape) for n, a in instance.feeds.items()]}"
        for (name, x), (_, y), (_, z) in zip(instance.specified(ours), instance.specified(theirs), instance.expected(), strict=True):
            report.check(close(x, y, tolerance), f"{name} of {what}", "is not onnxruntime's")
            report.check(close(y, z, tolerance), f"{name} of {what}", "onnxruntime's is not what its text says")
    report.exit()


main()
