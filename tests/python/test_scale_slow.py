# SPDX-License-Identifier: Apache-2.0
"""A model of a million nodes in a row on a small stack, in time proportional to its length; one of 500 MB that is not
read where only its structure is asked for."""
import os
import resource
import shutil
import subprocess
import time

from harness import TENON, Report, scratch

STACK = 256 << 10
FEW, MANY = 250_000, 1_000_000
MOST_RATIO = 9  # for four times the length: more falls out of the caches; a square would be 16
BIG = 500 << 20


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def value_info(name, dims):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, 1) + block(2, shape)))


def write_model(path, graph_parts):
    """ModelProto with a graph of these parts, which are not joined in memory."""
    size = sum(len(part) for part in graph_parts)
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(8, block(1, b"") + number(2, 17)) + varint(7 << 3 | 2) + varint(size))
        for part in graph_parts:
            file.write(part)


def write_chain(path, n):
    ops = [b"Relu", b"Neg", b"Tanh", b"Abs"]
    parts = [block(2, b"chain"), block(11, value_info(b"v0", (2, 3))), block(12, value_info(b"v%d" % n, (2, 3)))]
    parts.append(b"".join(block(1, block(1, b"v%d" % i) + block(2, b"v%d" % (i + 1)) + block(4, ops[i % 4])) for i in range(n)))
    write_model(path, parts)


def write_big(path):
    rows = BIG // 4096 // 4
    weights = number(1, rows) + number(1, 4096) + number(2, 1) + block(8, b"w") + varint(9 << 3 | 2) + varint(rows * 4096 * 4)
    size = rows * 4096 * 4
    node = block(1, block(1, b"x") + block(1, b"w") + block(2, b"y") + block(4, b"MatMul"))
    rest = node + block(2, b"big") + block(11, value_info(b"x", (1, rows))) + block(12, value_info(b"y", (1, 4096)))
    tensor = varint(5 << 3 | 2) + varint(len(weights) + size)
    graph = len(rest) + len(tensor) + len(weights) + size
    with open(path, "wb") as file:
        file.write(number(1, 8) + block(8, block(1, b"") + number(2, 17)) + varint(7 << 3 | 2) + varint(graph))
        file.write(rest + tensor + weights)
        file.truncate(file.tell() + size)


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))


def run(report, *arguments):
    """Processor seconds and peak megabytes of the command on a small stack."""
    child = subprocess.Popen([TENON, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=small_stack)
    message = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    child.stderr.close()
    report.check(status == 0, f"tenon {' '.join(map(os.path.basename, arguments))} ends with {status}", message[:500])
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def check_chain(report, folder):
    steps = [
        ("show", "{0}.onnx"),
        ("convert", "--force", "{0}.onnx", "{0}.tn"),
        ("convert", "--force", "{0}.tn", "{0}_back.onnx"),
    ]
    times = {}
    for n in (FEW, MANY):
        base = os.path.join(folder, f"chain_{n}")
        write_chain(base + ".onnx", n)
        times[n] = [run(report, *(part.format(base) for part in step)) for step in steps]
    for step, (few, _), (many, megabytes) in zip(steps, times[FEW], times[MANY]):
        if many >= MOST_RATIO * few + 0.5:  # a neighbour on the machine had the caches: once more
            base = os.path.join(folder, f"chain_{MANY}")
            many = min(many, run(report, *(part.format(base) for part in step))[0])
        print(f"{step[0]:8} {step[-1]:14} {FEW}: {few:5.2f} s   {MANY}: {many:5.2f} s  {megabytes:5.0f} MB")
        report.check(many < MOST_RATIO * few + 0.5, f"{step[0]} {step[-1]} takes {many:.2f} s for {MANY}, {few:.2f} s for {FEW}")
        report.check(megabytes < 3000, f"{step[0]} {step[-1]} takes {megabytes:.0f} MB")


def check_big(report, folder):
    path = os.path.join(folder, "big.onnx")
    write_big(path)
    start = time.monotonic()
    seconds, megabytes = run(report, "show", path)
    print(f"show of {BIG >> 20} MB: {seconds:.2f} s of the processor, {time.monotonic() - start:.2f} s, {megabytes:.0f} MB")
    report.check(megabytes < 60, f"show takes {megabytes:.0f} MB for a file of {BIG >> 20} MB")
    report.check(seconds < 1, f"show takes {seconds:.2f} s")


def main():
    report = Report()
    folder = scratch("scale")
    check_chain(report, folder)
    check_big(report, folder)
    shutil.rmtree(folder)
    report.exit()


if __name__ == "__main__":
    main()
