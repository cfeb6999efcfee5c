# SPDX-License-Identifier: Apache-2.0
"""The files of the embedded cluster's folder: places to write to, quiet logging, defaults of applications."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from penstock.adaptors.private_file import make_private_folder, write_private

DEFAULTS_FILE = "spark-defaults.conf"
"""In the folder conf: what master, workers and drivers of the cluster read. It holds the cluster's secret."""

QUIET_LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""
"""What a server of ours logs by: warnings and worse, to its standard error."""
_LOGGING = f"""{QUIET_LOGGING}
# The ready-check reads what master and worker say about their start.
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def java_options(properties: Mapping[str, str]) -> str:
    """Return the options of a JVM with these properties, as one text that Spark's launcher splits."""
    return " ".join(("-XX:-UsePerfData", *(f'"-D{name}={value}"' for name, value in properties.items())))


def authentication() -> dict[str, str]:
    """Return the configuration of a cluster that lets in only who knows its secret, with a new secret.

    Spark hands the secret on to executors in their environment, never on a command line.
    """
    return {
        "spark.authenticate": "true",  # master, workers, drivers, executors, and the blocks that they exchange
        "spark.authenticate.secret": secrets.token_hex(32),
        # The web pages have no login: whoever sees them must not be able to end something.
        "spark.ui.killEnabled": "false",
    }


def write_cluster_folders(
    folder: Path,
    host: str,
    java_properties: Mapping[str, str] | None = None,
    *,
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Create conf, logs, work, local and tmp in `folder`, with the two files that Spark reads from conf.

    `host` is where drivers listen, `java_properties` what each executor's JVM gets besides, and `configuration` what
    holds for all. Only this user may enter the folder.
    """
    make_private_folder(folder)
    for name in ("conf", "logs", "work", "local", "tmp"):
        make_private_folder(folder / name)
    (folder / "conf" / "log4j2.properties").write_text(_LOGGING)
    options = java_options({"java.io.tmpdir": str(folder / "tmp"), **(java_properties or {})})
    # An application's own settings override these. By default nothing is written outside the folder: neither the
    # warehouse in the working directory nor native libraries in /tmp.
    defaults = {
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executor.defaultJavaOptions": options,  # before the application's own extraJavaOptions
        # Over weeks executors write much, and operators are started again and again.
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": str(20 << 20),
        "spark.executor.logs.rolling.maxRetainedFiles": "3",
        "spark.worker.cleanup.enabled": "true",
        "spark.worker.cleanup.appDataTtl": str(7 * 86_400),  # of applications that ended
        **(configuration or {}),
    }
    write_private(folder / "conf" / DEFAULTS_FILE, "".join(f"{name} {value}\n" for name, value in defaults.items()))
