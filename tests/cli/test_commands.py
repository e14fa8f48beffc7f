"""Each command on a home nobody holds and on a held one: the same answers, the same exit codes."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.thorough

CHEAP = "SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 10"
BIG = "SELECT sym, worth(price, qty) AS worth FROM trades WHERE qty >= 1000 AND worth(price, qty) > 50000"


def test_queries_are_added_listed_shown_paused_resumed_and_dropped(shell, home):
    said = shell("eddyline query add --name corn --owner ops \"SELECT sym FROM trades WHERE sym = 'CORN'\"")
    assert (said.code, said.out, said.err) == (0, "added: corn, number 3, version 2\n", "")
    assert shell("eddyline query pause corn --owner ops").out == "corn: paused\n"
    assert shell("eddyline query pause corn --owner ops").out == "corn: paused already\n"
    assert shell("eddyline query list --state paused").out == (
        "id  name  owner  state   results  query\n"
        "3   corn  ops    paused  0        SELECT sym FROM trades WHERE sym = 'CORN'\n"
    )
    assert shell("eddyline query resume q3").out == "corn: running\n"
    shown = shell("eddyline query show corn --owner ops")
    assert "corn: running since version 4, generation 2\n" in shown.out
    assert "  owner      ops\n" in shown.out
    assert "  cost       index\n" in shown.out
    said = shell("eddyline query drop corn --owner ops")
    assert (said.code, said.out) == (0, "dropped: corn; version 5\n")


def test_a_query_may_come_from_a_file_or_from_standard_input(shell, home, project):
    (project / "one.sql").write_text("SELECT sym FROM trades WHERE price > 1", encoding="utf-8-sig")
    assert shell("eddyline query add --file one.sql --name one").out == "added: one, number 3, version 2\n"
    said = shell("eddyline query add - --name two", stdin="SELECT sym FROM trades WHERE price > 2")
    assert said.out == "added: two, number 4, version 3\n"


def test_a_taken_name_needs_replace(shell, home):
    said = shell('eddyline query add --name cheap "SELECT sym FROM trades"')
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "query cheap already exists, with another text\n"
        f"detail: It is {CHEAP}\n"
        "hint: Give --replace to change it, or another --name.\n"
    )
    said = shell('eddyline query add --name cheap --replace "SELECT sym FROM trades"')
    assert (said.out, said.err) == (
        "replaced: cheap, number 2, version 2\n",
        "warning: this query matches every row\n",
    )


def test_parameters_and_properties_are_given_by_name(shell, home):
    said = shell('eddyline query add --name p --param limit=5 --param sym=ACME --set enabled=false '
                 '"SELECT sym FROM trades WHERE sym = :sym AND price < :limit" --json')  # fmt: skip
    assert (said.json["name"], said.json["state"], said.json["is_new"]) == ("p", "paused", True)
    assert said.json["properties"] == {"enabled": False, "emit": "changes"}


def test_pages_of_a_list(shell, home):
    for n in range(4):
        shell(f'eddyline query add --name n{n} "SELECT sym FROM trades WHERE price = {n}"')
    said = shell("eddyline query list price --per-page 3 --page 2 --json")
    assert (said.json["total"], said.json["n_pages"]) == (6, 2)
    assert [query["name"] for query in said.json["queries"]] == ["n1", "n2", "n3"]
    assert shell("eddyline query list --per-page 4").err == "page 1 of 2, 6 queries in all; see --page\n"


def test_json_of_a_list(shell, home):
    (big, cheap) = shell("eddyline query list --json").json["queries"]
    assert (big["name"], big["text"], big["n_results"]) == ("big", BIG, 1)
    assert (cheap["id"], cheap["owner"], cheap["state"], cheap["generation"]) == (2, "", "running", 1)


def test_rules_are_planned_and_applied(shell, home, project):
    (project / "rules" / "cheap.sql").write_text(
        "CREATE OR REPLACE VIEW cheap AS\n  SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 9;\n"
        "CREATE OR REPLACE VIEW every AS SELECT sym FROM trades;\n"
    )
    planned = shell("eddyline plan")
    assert (planned.code, planned.err) == (0, "")
    assert planned.out == (
        "~ query cheap   (rules/cheap.sql:1, index)\n"
        "    -SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 10\n"
        "    +SELECT sym, price FROM trades WHERE sector = 'TECH' AND price < 9\n"
        "    1 of the last 4 rows would have matched\n"
        "+ query every   (rules/cheap.sql:3, matches everything)\n"
        "    4 of the last 4 rows would have matched\n"
        "    warning: every matches every row\n"
        "1 added, 1 changed, 1 unchanged\n"
    )
    assert shell("eddyline apply --dry-run").out.splitlines()[-1] == "would be: 1 added, 1 changed"
    assert shell("eddyline apply").out.splitlines()[-1] == "1 added, 1 changed; version 2"
    assert shell("eddyline apply --json").json["applied"] == {
        "before": 2,
        "version": 2,
        "added": 0,
        "changed": 0,
        "removed": 0,
        "unchanged": 3,
        "n_refused": 0,
        "refused": [],
    }


def test_a_plan_counts_recent_rows_that_could_not_be_decided_apart(shell, home, project):
    (project / "rules" / "more.sql").write_text(
        "CREATE OR REPLACE VIEW low AS SELECT sym, cast(sym AS INT) AS n FROM trades"
    )
    said = shell("eddyline plan").out.splitlines()
    assert said[1] == "    0 of the last 4 rows would have matched, 4 could not be decided"
    assert said[2].startswith("    for example: ")
    assert said[2].endswith(" is no INT")


def test_rules_of_a_folder_instead_of_the_pipeline(shell, home, project):
    (project / "more").mkdir()
    (project / "more" / "x.sql").write_text("SELECT sym FROM trades WHERE price = 1")
    said = shell("eddyline apply more")
    assert said.out == "+ query x   (more/x.sql:1, index)\n1 added; version 2\n"
    assert shell("eddyline plan more --prune").out == (
        "- query big   (in no file)\n- query cheap   (in no file)\n2 removed, 1 unchanged\n"
    )


def test_mistakes_stop_apply_with_exit_code_1(shell, home, project):
    (project / "rules" / "bad.sql").write_text("SELECT sim FROM trades;")
    planned = shell("eddyline plan")
    assert planned.code == 1
    assert planned.out == "2 unchanged; 1 mistake: nothing can be applied\n"
    assert planned.err.startswith("rules/bad.sql:1:8: there is no column sim in trades\n")
    said = shell("eddyline apply")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("the rules have 1 mistake, so nothing was changed\n")
    error = json.loads(shell("eddyline apply --json").err)["error"]
    assert error["kind"] == "RulesError"
    assert error["mistakes"][0]["problem"] == "there is no column sim in trades"
    assert (error["mistakes"][0]["line"], error["mistakes"][0]["column"]) == (1, 8)


def test_refused_rows_are_named_and_the_exit_code_is_1(shell, home, project):
    (project / "rules" / "w.sql").write_text(
        "CREATE VIEW `w-{u}` TBLPROPERTIES (rules_table = 'w.csv') AS SELECT sym FROM trades WHERE price < :p"
    )
    (project / "rules" / "w.csv").write_text("u,p\na,1\nb,x\n")
    said = shell("eddyline apply")
    assert said.code == 1
    assert said.out == "~ table w-{u}: w-a …   (rules/w.csv, index, 1 added)\n1 added; version 2\n"
    assert said.err == "rules/w.csv: row 2 (w-b): p: 'x' is not DOUBLE\n"


def test_versions_and_the_way_back(shell, home):
    shell("eddyline query drop cheap")
    versions = shell("eddyline versions --json").json
    assert [(v["version"], v["what"]) for v in versions] == [
        (2, "drop 1 query"),
        (1, "apply rules: 2 added, 1 stream declared"),
    ]
    assert shell("eddyline rollback 1 --dry-run").out == "+ query cheap   (q2)\nwould be: 1 added\n"
    said = shell("eddyline rollback 1").out
    assert said == "+ query cheap   (q2)\n1 added; version 3 has the queries of version 1\n"
    assert shell("eddyline rollback 1").out == "nothing to do: the queries of version 1 are deployed\n"
    done = shell("eddyline rollback 2 --json").json
    assert (done["from"], done["to"], done["version"], done["added"], done["removed"]) == (3, 2, 4, 0, 1)


def test_export_can_be_applied_and_changes_nothing(shell, home, project):
    said = shell("eddyline export out")
    assert (said.out, said.err) == ("out/streams.sql\nout/queries.sql\n", "1 stream and 2 queries written\n")
    assert shell("eddyline apply out --prune").out == "nothing to do: 2 queries unchanged, version 1\n"
    assert shell("eddyline export more --json").json["n_queries"] == 2


def test_explain_takes_a_name_a_text_or_a_file(shell, home):
    by_name = shell("eddyline explain cheap")
    assert by_name.out.startswith("cheap: running since version 1, generation 1\n")
    by_text = shell('eddyline explain "SELECT sym FROM trades WHERE price < 3" --json').json
    assert [c["served_by"] for c in by_text["conditions"]] == ["index"]
    by_file = shell("eddyline explain rules/cheap.sql --json").json
    assert by_file["text"] == CHEAP


def test_the_whole_index_is_explained_as_far_as_it_is_built(shell, home):
    said = shell("eddyline explain --all").out
    assert said.startswith("no stream has an index in this process: the one that runs rows builds it ")
    assert shell("eddyline explain --all --json").json == {"streams": []}


def test_filters_are_explained_of_one_stream_or_of_all(shell, home):
    assert shell("eddyline explain --filters").out == (
        "trades: 1 filter of 1 query, ordered by fixed, chosen by auto\n"
        "    –  worth(price, qty) > 50000.0   (1 query; it has not run on any row yet)\n"
    )
    (facts,) = shell("eddyline explain --filters trades --json").json["streams"]
    assert (facts["stream"], facts["policy"], facts["filters"][0]["n_queries"]) == ("trades", "auto", 1)
    assert shell("eddyline explain --filters tardes").code == 1
    for wrong in ("eddyline explain cheap --filters", "eddyline explain --all --filters"):
        assert shell(wrong).err.startswith("explain takes a query, --all, --filters, --joins or --aggregates")


def test_aggregates_are_explained_of_one_stream_or_of_all(shell, home):
    assert shell("eddyline explain --aggregates").out == "there are no aggregates\n"
    text = "SELECT sym, count(*) AS n FROM trades GROUP BY sym"
    assert shell(f'eddyline query add "{text}" --name n').code == 0
    said = shell("eddyline explain --aggregates trades").out.splitlines()
    assert said[0] == "trades: 4 rows, 0 late, watermark 2026-01-05T09:29:58Z"
    assert "  read by    n" in said
    (facts,) = shell("eddyline explain --aggregates --json").json["classes"]
    assert (facts["words"], facts["keys"], facts["n_queries"]) == ("FROM trades", ["sym"], 1)
    assert shell("eddyline explain --aggregates tardes").code == 1


def test_why_takes_pairs_or_json_or_nothing(shell, home):
    said = shell("eddyline why cheap sector=TECH price=13")
    assert said.out == (
        "the row does not match cheap\n"
        "  yes      sector = 'TECH'   (sector = 'TECH')\n"
        "  no       price < 10   (price = 13.0)\n"
    )
    assert shell('eddyline why cheap \'{"sector": "TECH", "price": 1}\' --json').json["matches"] is True
    assert shell("eddyline why cheap --last 2").out.startswith("cheap: 1 of the last 2 rows matched")


def test_why_of_a_query_with_aggregates_shows_groups(shell, home):
    text = "SELECT sector FROM trades GROUP BY sector HAVING count(*) >= 1000"
    assert shell(f'eddyline query add "{text}" --name busy').code == 0
    said = shell("eddyline why busy sector=TECH").out.splitlines()
    assert said[:2] == [
        "the row is in no group of busy",
        "  there is no group of sector = 'TECH' yet: no row that takes part has come since the query was registered",
    ]
    assert shell("eddyline why busy").out.startswith(
        "busy: 0 of 0 groups in the answer; deployed since version "
    )
    assert shell("eddyline why busy --json").json["groups"] == []


def test_why_of_a_union_says_which_part_it_is_about(shell, home):
    text = "SELECT sym FROM trades WHERE price < 5 UNION ALL SELECT sym FROM trades WHERE price < 8"
    assert shell(f'eddyline query add "{text}" --name either').code == 0
    said = shell("eddyline why either price=7").out.splitlines()
    assert said == [
        "the row matches either, part 2 of UNION ALL, line 1",
        "  yes      price < 8   (price = 7.0)",
        "the row does not match either, part 1 of UNION ALL, line 1",
        "  no       price < 5   (price = 7.0)",
    ]
    (other,) = shell("eddyline why either price=7 --json").json["others"]
    assert other["part"] == "part 1 of UNION ALL, line 1"
    assert shell("eddyline why either").out.startswith("either, part ")


def test_tail_shows_results_and_a_reader_goes_on_where_it_ended(shell, home):
    assert shell("eddyline tail --no-follow").out == (
        "1-1-2  + cheap  sym=ACME price=9.5\n"
        "1-2-1  + big  sym=BYTE worth=65000.0\n"
        "1-4-2  + cheap  sym=DATA price=7.75\n"
    )
    assert shell("eddyline tail --no-follow -n 1 cheap").out == "1-4-2  + cheap  sym=DATA price=7.75\n"
    lines = shell("eddyline tail --no-follow --json --after 1-2-1").out.splitlines()
    assert [json.loads(line)["row"] for line in lines] == [{"sym": "DATA", "price": 7.75}]
    assert len(shell("eddyline tail --no-follow --reader r").out.splitlines()) == 3
    assert shell("eddyline tail --no-follow --reader r").out == ""


def test_dead_letters_are_shown(shell, home, project):
    said = shell("eddyline deadletters --json")
    assert said.json == {"total": 0, "kept": 0, "letters": []}


def test_doctor_finds_everything_in_order(shell, home):
    said = shell("eddyline doctor")
    assert said.code == 0
    assert "ok       store: 2 files, no damage found\n" in said.out
    assert "ok       results: 1 file, " in said.out
    assert all(finding["level"] == "ok" for finding in shell("eddyline doctor --json").json["findings"])


def test_doctor_finds_and_forgets_a_damaged_file(shell, home):
    (damaged,) = (home / "store" / "capture").iterdir()
    damaged.write_bytes(b"garbage")
    name = f"capture/{damaged.name}"
    said = shell("eddyline doctor")
    assert said.code == 1
    assert f"ERROR    store: {name} is damaged or missing\n" in said.out
    assert "run eddyline doctor --forget-damaged: the rows as they came of round 1 are then lost." in said.out
    said = shell("eddyline doctor --forget-damaged")
    assert said.code == 0
    assert (
        f"warning  store: {name} was removed from the catalog: the rows as they came of round 1 are lost\n"
        in said.out
    )
    assert "ok       store: 1 files, no damage found\n" in shell("eddyline doctor").out


def test_what_the_last_rounds_took_is_shown(shell, home):
    shell("eddyline run --once")
    shown = shell("eddyline rounds").out
    assert shown.splitlines()[0].split()[:3] == ["round", "at", "rows"]
    (last,) = shell("eddyline rounds -n 1 --json").json
    assert last["n_tasks"] == 0
    assert [stage["stage"] for stage in last["stages"]] == ["filters"]
