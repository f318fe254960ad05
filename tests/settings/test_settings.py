"""The declarations of settings, and what is made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.app import JupyterCollaborationMCP
from jupyter_collaboration_mcp.settings.declaration import Door, Setting
from jupyter_collaboration_mcp.settings.environment import from_environment
from jupyter_collaboration_mcp.settings.levels import Levels
from jupyter_collaboration_mcp.settings.settings import SETTINGS, Settings, settings_of
from jupyter_collaboration_mcp.standalone.options import command_parser, read_settings
from jupyter_collaboration_mcp.workspace.permissions import Level

PREFIX = "JUPYTER_COLLABORATION_MCP_"

#: A value of each kind that is no default, as text and as it is meant.
EXAMPLES: list[tuple[Any, list[str], Any]] = [
    (bool, ["true"], True),
    (int, ["7"], 7),
    (float, ["1.5"], 1.5),
    (str, ["core"], "core"),
    (str | None, ["Ada"], "Ada"),
    (tuple[str, ...], ["a/*", "[bc]x*"], ("a/*", "[bc]x*")),
    (Levels, ["read", "work=write"], Levels(Level.read, {"work": Level.write})),
]


#: Of settings that do not take any text.
OWN_EXAMPLES = {"hub": ("https://hub.example/", "https://other.example/")}


def example(setting: Setting) -> tuple[list[str], Any]:
    if setting.name in OWN_EXAMPLES:
        return [OWN_EXAMPLES[setting.name][0]], OWN_EXAMPLES[setting.name][0]
    if setting.choices:
        return [setting.choices[-1]], setting.choices[-1]
    if setting.kind is bool:
        return [str(not setting.default).lower()], not setting.default
    return next((texts, value) for kind, texts, value in EXAMPLES if kind == setting.kind)


@pytest.mark.parametrize("setting", settings_of("command"), ids=lambda setting: setting.name)
def test_the_command_takes_a_setting_as_an_option_before_the_environment(setting: Setting) -> None:
    texts, value = example(setting)
    if setting.kind is bool:
        options = [setting.option if value else setting.option.replace("--", "--no-", 1)]
    else:
        options = [word for text in texts for word in (setting.option, text)]
    parser = command_parser()
    none, given = parser.parse_args([]), parser.parse_args(options)
    by_variable = {setting.variable: ",".join(texts)}
    assert getattr(read_settings(none, {}), setting.name) == setting.default != value
    assert getattr(read_settings(none, by_variable), setting.name) == value
    assert getattr(read_settings(given, {}), setting.name) == value
    default = {setting.variable: _text(setting)}
    assert getattr(read_settings(given, default), setting.name) == value


def _text(setting: Setting) -> str:
    """Another value than that of the example, as a variable has it."""
    if setting.name in OWN_EXAMPLES:
        return OWN_EXAMPLES[setting.name][1]
    if isinstance(setting.default, bool):
        return str(setting.default).lower()
    return "admin" if setting.kind is Levels else str(setting.default or 9)


def test_the_command_has_no_extension_only_settings() -> None:
    options = {option for action in command_parser()._actions for option in action.option_strings}
    only = [setting for setting in SETTINGS if setting.doors == ("extension",)]
    assert {"url_path", "journal_dir", "journal_limit", "preload"} <= {each.name for each in only}
    assert not [setting.option for setting in only if setting.option in options]
    # Nor does a variable for the extension bother it, be it wrong for the command's purposes.
    assert from_environment({only[0].variable: "elsewhere"}, "command") == {}


def test_the_extensions_traits_match_its_settings() -> None:
    traits = JupyterCollaborationMCP.class_own_traits(config=True)
    assert set(traits) == {setting.name for setting in settings_of("extension")}
    assert JupyterCollaborationMCP().configured() == Settings(permission=Levels(Level.admin))
    configured = JupyterCollaborationMCP(
        permission="read", denied_paths=["a/*"], max_cells_per_call=7
    ).configured()
    assert configured == Settings(
        permission=Levels(Level.read), denied_paths=("a/*",), max_cells_per_call=7
    )


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("MAX_CELLS_PER_CALL", "many", "'many' is not a whole number"),
        ("MAX_CELLS_PER_CALL", "1.5", "'1.5' is not a whole number"),
        ("MAX_CELLS_PER_CALL", "-1", "-1 is less than 0"),
        ("IDLE_TIMEOUT", "nan", "nan is less than 0"),
        ("STRUCTURED", "yes", "'yes' is neither true nor false"),
        ("PERMISSION", "reed", "there is no permission level 'reed'"),
        ("TOOLSETS", "cor", "Did you mean core?"),
        ("DENIED_PATHS", '["a/*"', '["a/*" is not a JSON list of strings'),
        ("DENIED_PATHS", '["a/*", 1]', "is not a JSON list of strings"),
        ("DENIED_PATHS", "['a/*']", "is not a JSON list of strings"),
        ("DENIED_PATHS", " , ", "has no element"),
    ],
)
@pytest.mark.parametrize("door", ["extension", "command"])
def test_an_invalid_variable_is_refused_by_name(
    door: Door, variable: str, text: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match="^" + PREFIX + variable + ": ") as refusal:
        from_environment({PREFIX + variable: text}, door)
    assert complaint in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_misspelt_variable_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match=r"no setting \w+_PERMISION.*Did you mean permission"):
        from_environment({PREFIX + "PERMISION": "read"}, "extension")


def test_empty_and_unrelated_variables_are_ignored() -> None:
    others = {"JUPYTER_TOKEN": "x", "JUPYTER_COLLABORATION": "y", PREFIX + "PERMISSION": ""}
    assert from_environment(others, "command") == {}


@pytest.mark.parametrize("door", ["extension", "command"])
def test_users_of_the_toolset_connect_switch_images_off_as_before(door: Door) -> None:
    assert from_environment({"ALLOW_IMG": "false"}, door) == {"max_image_width": 0}
    assert from_environment({"ALLOW_IMG": "true"}, door) == {}
    both = {"ALLOW_IMG": "false", PREFIX + "MAX_IMAGE_WIDTH": "300"}
    assert from_environment(both, door) == {"max_image_width": 300}


@given(st.lists(st.text(min_size=1).filter(lambda text: not text.startswith("["))))
def test_a_list_of_anything_can_be_given_as_json(globs: list[str]) -> None:
    values = from_environment({PREFIX + "DENIED_PATHS": json.dumps(globs)}, "extension")
    assert values == {"denied_paths": tuple(globs)}


@pytest.mark.parametrize(
    ("text", "number"), [("256,000,000", 256_000_000), ("256e6", 256_000_000), ("1_000", 1000)]
)
def test_large_numbers_can_be_written_in_common_notations(text: str, number: int) -> None:
    options = command_parser().parse_args(["--max-answer-size", text])
    assert read_settings(options, {}).max_answer_size == number


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "x"])
def test_an_answer_timeout_that_is_not_positive_is_refused(text: str) -> None:
    options = command_parser().parse_args([f"--answer-timeout={text}"])
    with pytest.raises(ValueError, match=r"^--answer-timeout: "):
        read_settings(options, {})


def test_a_list_in_an_option_is_refused() -> None:
    """It would be one glob, which fits nothing."""
    options = command_parser().parse_args(["--denied-paths", '["a/*", "b/*"]'])
    with pytest.raises(ValueError, match=r"^--denied-paths: .*once for each glob"):
        read_settings(options, {})


def test_a_server_connected_by_an_agent_gets_no_higher_level_than_configured() -> None:
    assert Levels().of_others is Level.admin
    assert Levels.parse(["write"]).of_others is Level.write
    some = Levels.parse(["one=read", "two=execute"])
    assert (some.of("one"), some.of("three"), some.of_others) == (
        Level.read,
        Level.admin,
        Level.read,
    )
    assert (some.highest, Levels.parse(["read", "one=write"]).highest) == (
        Level.admin,
        Level.write,
    )
