"""odmtool check and odmtool describe."""

from __future__ import annotations

from odmtool.messages.words import counted, one_line, sentence, shortened


def fact(name: str, text: str) -> str:
    return f"{name.replace('_', ' ')}: {one_line(text)}"


largest_weights = sentence("the {count} largest weights:")
largest_weights_of_each = sentence("the largest weights for each class, and their features:")
not_text = sentence("this is not UTF-8 text")


def weights_of_class(head: str, weights: list[tuple[str, float]]) -> str:
    """``weights`` are names of features and their weights."""
    return f"{head}: " + ", ".join(f"{weight:.3g} ({name})" for name, weight in weights)


def data_shape(path: str, m: int, d: int, noun: str, values: int, low: float, high: float) -> str:
    """``noun`` says what the columns are."""
    density = f"{100 * values / (m * d):.3g} %" if d else "0 %"
    return (
        f"{one_line(path)}: {counted(m, 'example')}, {counted(d, noun)}, "
        f"{counted(values, 'value')} ({density}), from {low:g} to {high:g}"
    )


def data_classes(path: str, counts: list[tuple]) -> str:
    words = ", ".join(f"{shortened(str(label))} ({count})" for label, count in counts)
    classes = counted(len(counts), "class", "classes")
    return f"{one_line(path)}: {classes}: {words}"


many_classes = sentence("{path!l}: {classes} classes of {least} to {most} examples")
scale_first = sentence("{path!l}: the values are large: scale them with odm-scale -l 0")
files_with_faults = sentence("{faults} of {files} files cannot be read")
