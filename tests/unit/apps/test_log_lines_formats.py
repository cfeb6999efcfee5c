# SPDX-License-Identifier: Apache-2.0
"""The line formats, on written examples and on real logs where they are at hand."""

from __future__ import annotations

import lzma
import os
import re
import tarfile
from pathlib import Path

import pytest

from penstock.apps.log_analysis.lines import FORMATS, line_format
from penstock.errors import ConfigurationError

EXAMPLES = {
    "penstock": (
        "2026-01-31T12:34:56.789 INFO storage.BlockManager: Found block rdd_2_3: locally",
        ("2026-01-31T12:34:56.789", "INFO", "storage.BlockManager", "Found block rdd_2_3: locally"),
    ),
    "hdfs": (
        "081109 203615 148 INFO dfs.DataNode$PacketResponder: PacketResponder 1 terminating",
        ("081109 203615", "INFO", "dfs.DataNode$PacketResponder", "PacketResponder 1 terminating"),
    ),
    "spark": (
        "17/06/09 20:10:40 WARN executor.Executor: Finished task",
        ("17/06/09 20:10:40", "WARN", "executor.Executor", "Finished task"),
    ),
    "zookeeper": (
        "2015-07-29 17:41:44,747 - INFO  [QuorumPeer[myid=1]/0:0:0:2181:FastLeaderElection@774] - time out: 3200",
        ("2015-07-29 17:41:44,747", "INFO", "FastLeaderElection", "time out: 3200"),
    ),
    "openssh": (
        "Dec  1 06:55:46 host sshd[24200]: Invalid user webmaster",
        ("Dec  1 06:55:46", None, "sshd", "Invalid user webmaster"),
    ),
    "apache": (
        "[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok",
        ("Dec 04 04:47:44 2005", "notice", "workerEnv.init", "workerEnv.init() ok"),
    ),
    "combined": (
        '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /blog/a.png?x=1 HTTP/1.1" 404 12 "-" "agent"',
        ("17/May/2015:10:05:03 +0000", "404", "/blog", '"GET /blog/a.png?x=1 HTTP/1.1" 404 12 "-" "agent"'),
    ),
}
# The lines of each real file and how many of them the format reads; the rest are named where there is a rest.
REAL = {
    "hdfs": ("HDFS_2k.log", 2000, 2000),
    "spark": ("Spark_2k.log", 2000, 2000),
    "zookeeper": ("Zookeeper_2k.log", 2000, 2000),
    "openssh": ("OpenSSH_2k.log", 2000, 2000),
    "apache": ("Apache_2k.log", 2000, 2000),
    "combined": ("", 10000, 10000),
}


def real_lines(name: str) -> list[str]:
    """The lines of the real log of a format; skips the test where the data is not there."""
    data = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[4] / "shared" / "data"))
    archive = (
        data / "apache-logs" / "elastic_apache_logs_10k.log.xz"
        if name == "combined"
        else data / "loghub-2k" / "loghub_2k_logs.tar.xz"
    )
    if not archive.is_file():
        pytest.skip(f"no real logs: {archive} is not there (set PENSTOCK_DATA to the folder of the traces)")
    if name == "combined":
        content = lzma.decompress(archive.read_bytes())
    else:
        with tarfile.open(archive) as members:
            file = members.extractfile(next(m for m in members if Path(m.name).name == REAL[name][0]))
            assert file is not None
            content = file.read()
    return [line.rstrip("\r") for line in content.decode("utf-8", "replace").rstrip("\n").split("\n")]


@pytest.mark.parametrize("name", FORMATS)
def test_a_well_formed_line_gives_its_fields(name: str) -> None:
    """Time, level, component and message are found where the format has them."""
    line, fields = EXAMPLES[name]
    form = line_format(name)
    match = re.match(form.regex, line, re.ASCII)
    assert match is not None
    groups = (form.timestamp, form.level, form.component, form.message)
    assert tuple(None if group is None else match.group(group) for group in groups) == fields


@pytest.mark.parametrize("name", FORMATS)
def test_other_formats_lines_are_malformed(name: str) -> None:
    """No format reads another's example, an empty line or a line cut short."""
    regex = re.compile(FORMATS[name].regex, re.ASCII)
    others = [line for other, (line, _) in EXAMPLES.items() if other != name]
    assert not [line for line in [*others, "", EXAMPLES[name][0][:15], "text"] if regex.match(line)]


@pytest.mark.parametrize("name", FORMATS)
def test_fields_never_equal_the_line(name: str) -> None:
    """Between the fields of a line stand separators: rewritten as fields alone it is always another text."""
    line, fields = EXAMPLES[name]
    assert "\x01".join(field or "" for field in fields) != line


def test_unknown_format_is_named_with_the_known_ones() -> None:
    """A format that does not exist is an error that lists those that do."""
    with pytest.raises(ConfigurationError, match=r"'syslog'.*known: penstock, hdfs") as caught:
        line_format("syslog")
    assert caught.value.field == "format"


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_lines_parse(name: str) -> None:
    """As many lines of the real log match its format as were counted by hand."""
    lines = real_lines(name)
    regex = re.compile(FORMATS[name].regex, re.ASCII)
    parsed = sum(1 for line in lines if regex.match(line))
    assert (len(lines), parsed) == REAL[name][1:], [line for line in lines if not regex.match(line)][:5]
