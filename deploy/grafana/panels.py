"""The house style of the dashboards: panels that name their unit, say what they show, and say so when there is nothing.

Colours are those of Okabe and Ito, which people with any colour vision tell apart, and no colour is the only sign of
anything. Where the number of series is not known, they are shades of one colour, or bars with names beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as c
from grafana_foundation_sdk.models import dashboard as d
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATA_SOURCE: Final = d.DataSourceRef(type_val="prometheus", uid="venue-prometheus")
NO_TRAFFIC: Final = "no traffic"

SKY: Final = "#56B4E9"
BLUE: Final = "#0072B2"
GREEN: Final = "#009E73"
ORANGE: Final = "#E69F00"
VERMILION: Final = "#D55E00"
PINK: Final = "#CC79A7"
PALETTE: Final = (SKY, BLUE, GREEN, ORANGE, VERMILION, PINK)

AnyPanel = TypeVar("AnyPanel", stat.Panel, timeseries.Panel, heatmap.Panel, bargauge.Panel, table.Panel)


Panel = Builder[d.Panel]


@dataclass(frozen=True, slots=True)
class Series:
    """A query and its name in the legend, which may hold labels as in ``{{account}}``."""

    expr: str
    name: str
    unit: str = ""
    """If it is another one than that of its panel; then it has an axis of its own, on the right."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From which value on a figure is worth attention, and from which it is bad."""

    attention: float
    bad: float


def _query(series: Series, place: int, *, instant: bool = False) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(series.expr).legend_format(series.name).ref_id(chr(ord("A") + place))
    return query.datasource(DATA_SOURCE).instant() if instant else query.datasource(DATA_SOURCE).range()


def _head(panel: AnyPanel, title: str, text: str, no_value: str, size: tuple[int, int]) -> AnyPanel:
    """What every panel has. ``size`` is width (of 24) and height in grid cells."""
    width, height = size
    return panel.title(title).description(text).no_value(no_value).datasource(DATA_SOURCE).span(width).height(height)


def _thresholds(limits: Limits | None, usual: str = SKY) -> dashboard.ThresholdsConfig:
    steps = [d.Threshold(value=None, color=usual)]
    if limits is not None:
        steps += [d.Threshold(limits.attention, ORANGE), d.Threshold(limits.bad, VERMILION)]
    return dashboard.ThresholdsConfig().mode(d.ThresholdsMode.ABSOLUTE).steps(steps)


def _fixed(color: str) -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(d.FieldColorModeId.FIXED).fixed_color(color)


def figure(
    title: str,
    text: str,
    series: Series,
    *,
    unit: str,
    width: int,
    limits: Limits | None = None,
    words: dict[str, str] | None = None,
    no_value: str = NO_TRAFFIC,
    show_name: bool = False,
) -> stat.Panel:
    """One number, or the word that stands for it in ``words``, or the names of its series."""
    panel = _head(stat.Panel(), title, text, no_value, (width, 3)).unit(unit).thresholds(_thresholds(limits))
    if words:
        results = {value: d.ValueMappingResult(text=word, index=at) for at, (value, word) in enumerate(words.items())}
        panel = panel.mappings([d.ValueMap(options=results)])
    return (
        panel.graph_mode(c.BigValueGraphMode.NONE)
        .color_mode(c.BigValueColorMode.VALUE)
        .text_mode(c.BigValueTextMode.NAME if show_name else c.BigValueTextMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.THRESHOLDS))
        .with_target(_query(series, 0, instant=True))
    )


def over_time(
    title: str,
    text: str,
    *series: Series,
    unit: str,
    size: tuple[int, int],
    log: bool = False,
    stacked: bool = False,
    bars: bool = False,
    shades: bool = False,
    no_value: str = NO_TRAFFIC,
) -> timeseries.Panel:
    """Lines (or bars) over time, each in a colour of its own; with ``shades`` any number of them in one."""
    panel = _head(timeseries.Panel(), title, text, no_value, size).unit(unit).line_width(1).fill_opacity(0)
    panel = panel.legend(
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(c.LegendDisplayMode.LIST)
        .placement(c.LegendPlacement.BOTTOM)
    ).tooltip(common.VizTooltipOptions().mode(c.TooltipDisplayMode.MULTI))
    if log:
        panel = panel.scale_distribution(common.ScaleDistributionConfig().type(c.ScaleDistribution.LOG).log(10))
    else:
        panel = panel.min(0)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(c.StackingMode.NORMAL).group("A")).fill_opacity(60)
    if bars:
        panel = panel.draw_style(c.GraphDrawStyle.BARS).fill_opacity(80)
    if shades:
        panel = panel.color_scheme(dashboard.FieldColor().mode(d.FieldColorModeId.SHADES).fixed_color(SKY))
    for place, each in enumerate(series):
        panel = panel.with_target(_query(each, place))
        changes = [] if shades else [d.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": PALETTE[place]})]
        if each.unit:
            changes += [d.DynamicConfigValue("unit", each.unit), d.DynamicConfigValue("custom.axisPlacement", "right")]
        if changes:
            panel = panel.override_by_query(chr(ord("A") + place), changes)
    return panel


def bars(title: str, text: str, series: Series, *, unit: str, size: tuple[int, int], no_value: str) -> bargauge.Panel:
    """One bar for each series of a query, its name beside it."""
    return (
        _head(bargauge.Panel(), title, text, no_value, size)
        .unit(unit)
        .min(0)
        .thresholds(_thresholds(None))
        .color_scheme(_fixed(SKY))
        .display_mode(c.BarGaugeDisplayMode.BASIC)
        .orientation(c.VizOrientation.HORIZONTAL)
        .name_placement(c.BarGaugeNamePlacement.LEFT)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_query(series, 0, instant=True))
    )


def heat(title: str, text: str, expr: str, *, unit: str, size: tuple[int, int]) -> heatmap.Panel:
    """A classic histogram over time: ``expr`` gives what each ``le`` gained."""
    query = _query(Series(expr, "{{le}}"), 0).format(PromQueryFormat.HEATMAP)
    return (
        _head(heatmap.Panel(), title, text, NO_TRAFFIC, size)
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Viridis").exponent(0.5).steps(64))
        .y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(c.AxisPlacement.LEFT))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(c.HeatmapCellLayout.AUTO))
        .cell_values(heatmap.CellValues().unit("short"))
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .show_value(c.VisibilityMode.NEVER)
        .mode(c.TooltipDisplayMode.SINGLE)
        .show_y_histogram()
        .show_color_scale(True)
        .cell_gap(0)
        .with_target(query)
    )


def rows(title: str, text: str, key: str, *columns: Series, size: tuple[int, int], no_value: str) -> table.Panel:
    """A table with one row for each value of the label ``key`` and one column for each query, which keeps only it."""
    panel = _head(table.Panel(), title, text, no_value, size).unit("short").show_header(True)
    panel = panel.align(c.FieldTextAlignment.AUTO).inspect(False).cell_options(c.TableAutoCellOptions())
    names = {f"Value #{chr(ord('A') + place)}": column.name for place, column in enumerate(columns)}
    for place, column in enumerate(columns):
        query = _query(Series(column.expr, ""), place, instant=True).format(PromQueryFormat.TABLE)
        panel = panel.with_target(query)
        if column.unit:
            panel = panel.override_by_name(column.name, [d.DynamicConfigValue("unit", column.unit)])
    order = {"Time": 0, key: 1} | {name: place + 2 for place, name in enumerate(names)}
    tidy = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    return (
        panel.with_transformation(d.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(d.DataTransformerConfig(id_val="organize", options=tidy))
        .thresholds(_thresholds(None))
        .color_scheme(_fixed(SKY))
    )


def page(uid: str, title: str, text: str, other: tuple[str, str]) -> dashboard.Dashboard:
    """An empty dashboard with a link to the other one, given as uid and title."""
    other_uid, other_title = other
    link = dashboard.DashboardLink(other_title).type(d.DashboardLinkType.LINK).url(f"/d/{other_uid}").icon("dashboard")
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(text)
        .tags(["venue"])
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("browser")
        .tooltip(d.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(dashboard.AdHocVariable("filter").datasource(DATA_SOURCE))
        .link(link.keep_time(True).include_vars(True).as_dropdown(False).target_blank(False).tooltip(""))
    )
