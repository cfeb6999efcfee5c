# SPDX-License-Identifier: Apache-2.0
"""The files of the embedded cluster's folder: places to write to, quiet logging, defaults of applications."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
# The ready-check reads what master and worker say about their start.
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def java_options(properties: Mapping[str, str]) -> str:
    """Return the options of a JVM with these properties, as one text that Spark's launcher splits."""
    return " ".join(("-XX:-UsePerfData", *(f'"-D{name}={value}"' for name, value in properties.items())))


def write_cluster_folders(folder: Path, host: str, java_properties: Mapping[str, str] | None = None) -> None:
    """Create conf, logs, work, local and tmp in `folder`, with the two files that Spark reads from conf.

    `host` is where drivers listen, `java_properties` what each executor's JVM gets besides.
    """
    for name in ("conf", "logs", "work", "local", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "log4j2.properties").write_text(_LOGGING)
    options = java_options({"java.io.tmpdir": str(folder / "tmp"), **(java_properties or {})})
    # An application's own settings override these. By default nothing is written outside the folder: neither the
    # warehouse in the working directory nor native libraries in /tmp.
    (folder / "conf" / "spark-defaults.conf").write_text(
        f"spark.driver.host {host}\n"
        f"spark.driver.bindAddress {host}\n"
        "spark.ui.showConsoleProgress false\n"
        f"spark.sql.warehouse.dir {folder / 'warehouse'}\n"
        f"spark.executor.extraJavaOptions {options}\n"
    )
