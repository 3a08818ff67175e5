"""Looking at compile caches: real layouts, and trees that somebody made to hurt."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from cache_trees import FACTORS, KERNEL, file, from_listing, listed, soon

from watchdog import cache_tree
from watchdog.cache_layouts import AITER, AOT, INDUCTOR, MODELINFOS, OTHER, SHARED, TRITON
from watchdog.cache_stamp import NAME as STAMP
from watchdog.cache_stamp import Stamp, write
from watchdog.cache_tree import survey

BEGAN = 1_700_000_000.0
HASHES = {
    "config_hash": "258067f0c0",
    "code_hash": "3fb5bad723de7b641755314bd120359eea37d0eb03a80e06cf18d2925cd45044",
    "compiler_hash": "accf8d0bf4",
}


def kinds(seen):
    return {entry.kind: entry for entry in seen.layouts}


# --- the layouts of a real vLLM ---


def test_a_cache_of_mode_3_is_one_inductor_directory_and_what_models_can_do(tmp_path):
    seen = survey(from_listing(tmp_path, "listing_mode3.txt"), soon())

    found = kinds(seen)
    inductor = found[INDUCTOR]
    assert set(found) == {INDUCTOR, MODELINFOS}
    assert inductor.path == tmp_path / "torch_compile_cache/bf36639200"
    assert inductor.keyed
    assert (inductor.files, inductor.oldest, inductor.newest) == (6, BEGAN + 1, BEGAN + 6)
    sizes = {path: size for path, size in listed("listing_mode3.txt") if "/rank_0_0/" in path}
    assert inductor.bytes == sum(sizes.values())
    assert found[MODELINFOS].factors == {
        "models": ["vllm-model_executor-models-llama-LlamaForCausalLM"]
    }
    assert seen.whole


def test_the_factors_of_a_real_cache_say_what_it_was_compiled_for(tmp_path):
    seen = survey(from_listing(tmp_path, "listing_mode3.txt"), soon())

    entry = kinds(seen)[INDUCTOR]
    told = dict(entry.factors)
    assert {name: told[name] for name in HASHES} == HASHES
    assert told["versions"] == {"cuda": '"13.0"', "build": '"unknown"', "device": '"cuda"'}
    assert told["parts"] == {"rank_0_0/backbone": HASHES}
    assert not told["mixed"]
    assert len(told["env"]) == 16
    assert entry.env["VLLM_ENGINE_READY_TIMEOUT_S"] == "600"
    assert len(entry.env) > 240


def test_a_cache_with_aot_has_a_directory_of_64_digits_beside_that_of_10(tmp_path):
    seen = survey(from_listing(tmp_path, "listing_mode3_aot.txt"), soon())

    found = kinds(seen)
    assert set(found) == {INDUCTOR, AOT, MODELINFOS}
    assert (found[AOT].files, found[AOT].bytes) == (1, 1_462_777)
    assert found[INDUCTOR].path.name == "c563fca8f3"


def test_what_lies_within_an_aot_directory_belongs_to_it(tmp_path):
    """Its `inductor_cache` would be one of torch's own anywhere else."""
    seen = survey(from_listing(tmp_path, "listing_stock_cpu_aot.txt"), soon())

    files = {path for path, _ in listed("listing_stock_cpu_aot.txt") if "torch_aot" in path}
    aot = {entry.path.name: entry.files for entry in seen.layouts if entry.kind == AOT}
    assert set(kinds(seen)) == {AOT, MODELINFOS}
    assert len(aot) == len({path.split("/")[2] for path in files})
    assert sum(aot.values()) == len(files)
    assert max(aot.values()) > 50


@pytest.mark.parametrize("below", ["torch_compile_cache", "torch_compile_cache/bf36639200"])
def test_a_cache_is_known_from_any_directory_on_its_way(tmp_path, below):
    from_listing(tmp_path, "listing_mode3.txt")

    (entry,) = survey(tmp_path / below, soon()).layouts

    assert (entry.kind, entry.path.name, entry.files) == (INDUCTOR, "bf36639200", 6)


def test_a_cache_is_known_below_a_directory_that_holds_others_too(tmp_path):
    from_listing(tmp_path / "vllm", "listing_mode3.txt")
    file(tmp_path / "huggingface/hub/version.txt", 1)

    found = kinds(survey(tmp_path, soon()))

    assert set(found) == {INDUCTOR, MODELINFOS, OTHER}
    assert (found[OTHER].path, found[OTHER].files) == (tmp_path, 1)


def test_a_start_that_died_before_it_compiled_leaves_an_empty_directory(tmp_path):
    (tmp_path / "torch_compile_cache/bf36639200").mkdir(parents=True)

    seen = survey(tmp_path, soon())

    assert [(entry.kind, entry.files) for entry in seen.layouts] == [(INDUCTOR, 0)]
    assert seen.compiled == ()
    assert seen.whole


def test_a_directory_that_was_chosen_bypasses_vllms_key(tmp_path):
    file(tmp_path / "qwen/rank_0_0/backbone/cache_key_factors.json")
    file(tmp_path / "qwen/rank_0_1/eagle_head/vllm_compile_cache.py")

    (entry,) = survey(tmp_path / "qwen", soon()).layouts

    assert (entry.kind, entry.path, entry.files) == (INDUCTOR, tmp_path / "qwen", 2)
    assert not entry.keyed


@pytest.mark.parametrize("key", ["config_hash", "compiler_hash"])
def test_parts_that_were_compiled_for_two_configurations_are_told(tmp_path, key):
    file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")
    drafter = file(tmp_path / "rank_0_0/a_head/cache_key_factors.json")
    drafter.write_text(json.dumps({**json.loads(FACTORS.read_text()), key: "0123456789"}))

    (entry,) = survey(tmp_path, soon()).layouts

    assert entry.factors["mixed"]
    assert entry.factors["parts"]["rank_0_0/a_head"][key] == "0123456789"
    assert entry.factors[key] == HASHES[key]  # the target's own


def test_a_drafter_with_code_of_its_own_is_no_mixture(tmp_path):
    file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")
    drafter = file(tmp_path / "rank_0_0/eagle_head/cache_key_factors.json")
    drafter.write_text(json.dumps({**json.loads(FACTORS.read_text()), "code_hash": "ab" * 32}))

    (entry,) = survey(tmp_path, soon()).layouts

    assert not entry.factors["mixed"]


# --- caches outside of vLLM's root ---


@pytest.mark.parametrize(
    ("path", "kind", "where"),
    [
        (f".triton/cache/{KERNEL}/add.hsaco", TRITON, ".triton"),
        (f"kernels/{KERNEL}/__grp__add.json", TRITON, "kernels"),
        ("old/0a1b/__grp__add.json", TRITON, "old"),
        (".aiter/jit/module_rmsnorm.so", AITER, ".aiter"),
        ("jit/module_rmsnorm.so", AITER, "jit"),
        ("torchinductor_root/ab/cab.py", SHARED, "torchinductor_root"),
        ("mine/fxgraph/ab/x/y", SHARED, "mine"),
        ("notes/readme.txt", OTHER, ""),
    ],
)
def test_shared_caches_are_told_apart(tmp_path, path, kind, where):
    file(tmp_path / path)

    (entry,) = survey(tmp_path, soon()).layouts

    assert (entry.kind, entry.path, entry.files) == (kind, tmp_path / where, 1)


def test_triton_kernels_that_a_root_holds_are_one_cache(tmp_path):
    file(tmp_path / KERNEL / "add.hsaco")
    file(tmp_path / ("B" * 52) / "hip_utils.so")

    (entry,) = survey(tmp_path, soon()).layouts

    assert (entry.kind, entry.path, entry.files) == (TRITON, tmp_path, 2)


# --- times ---


def test_times_are_those_of_compiled_files(tmp_path):
    """A model's description or a foreign file says nothing of when the cache was filled."""
    from_listing(tmp_path, "listing_mode3.txt")
    os.utime(file(tmp_path / "gpu_p2p_access_cache.json"), (2e9, 2e9))
    os.utime(next((tmp_path / "modelinfos").iterdir()), (1, 1))

    seen = survey(tmp_path, soon())

    assert (seen.oldest, seen.newest) == (BEGAN + 1, BEGAN + 6)
    assert seen.files == 8


def test_where_no_cache_is_known_all_files_tell_the_time(tmp_path):
    os.utime(file(tmp_path / "layout_of_tomorrow/x"), (5, 5))

    seen = survey(tmp_path, soon())

    assert (seen.oldest, seen.newest, seen.compiled) == (5, 5, ())


def test_our_own_stamp_is_no_part_of_the_cache(tmp_path):
    write(tmp_path, Stamp())
    file(tmp_path / f"{STAMP}.0a1b2c3d")  # of a watchdog that was killed while it wrote

    seen = survey(tmp_path, soon())

    assert (tmp_path / STAMP).exists()
    assert (seen.files, seen.newest) == (0, None)
    assert seen.whole


def test_a_copy_that_was_set_aside_is_named_and_not_counted(tmp_path):
    from_listing(tmp_path, "listing_mode3.txt")
    (tmp_path / "torch_compile_cache").rename(
        tmp_path / "torch_compile_cache.stale-20260916T010203Z"
    )

    seen = survey(tmp_path, soon())

    assert seen.aside == ("torch_compile_cache.stale-20260916T010203Z",)
    assert set(kinds(seen)) == {MODELINFOS}
    assert seen.compiled == ()


def test_a_copy_within_a_cache_is_no_part_of_it_either(tmp_path):
    file(tmp_path / f".triton/cache.stale-20260916T010203Z/{KERNEL}/add.hsaco")

    seen = survey(tmp_path, soon())

    assert seen.aside == (".triton/cache.stale-20260916T010203Z",)
    assert (seen.files, seen.compiled) == (0, ())


def test_a_copy_that_was_set_aside_can_be_looked_at_itself(tmp_path):
    copy = tmp_path / "vllm.stale-20260916T010203Z"

    assert INDUCTOR in kinds(survey(from_listing(copy, "listing_mode3.txt"), soon()))


def test_what_was_seen_is_plain_data_too(tmp_path):
    seen = survey(from_listing(tmp_path, "listing_mode3.txt"), soon())

    told = json.loads(json.dumps(seen.as_dict()))

    assert (told["files"], told["cut"], told["unread"]) == (7, "", [])
    assert {entry["kind"] for entry in told["layouts"]} == {INDUCTOR, MODELINFOS}


# --- secrets ---


def test_no_secret_of_the_environment_is_kept(tmp_path):
    """Nor a digest that holds it: two files that differ by secrets alone give the same."""
    path = file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")
    real = json.loads(path.read_text())
    both = []
    for secret in ("geheim-a", "ganz-geheim-b"):
        real["env"] |= {
            "VLLM_API_KEY": f"{secret}-1",
            "HF_TOKEN": f"{secret}-2",
            "AWS_SECRET_ACCESS_KEY": f"{secret}-3",
            "VLLM_S3_PASSWORD": f"{secret}-4",
            "VLLM_MIRROR": f"https://me:{secret}-5@mirror",
            "VLLM_MIRRORS": [{"at": f"https://me:{secret}-6@mirror", "api_key": f"{secret}-7"}],
        }
        path.write_text(json.dumps(real))
        both.append(survey(tmp_path, soon()).layouts[0])

    assert both[0].factors == both[1].factors
    assert both[0].env == both[1].env
    assert both[0].env["VLLM_MIRROR"] == '"https://...@mirror"'
    assert "geheim" not in repr(both)


def test_variables_that_count_tokens_are_no_secrets(tmp_path):
    file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")

    (entry,) = survey(tmp_path, soon()).layouts

    assert entry.env["VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE"] == "163840"


# --- bounds ---


def test_more_files_than_are_looked_at_are_told(tmp_path):
    for i in range(11):
        file(tmp_path / f"{i}")

    assert survey(tmp_path, soon(), most=11).whole
    seen = survey(tmp_path, soon(), most=10)

    assert seen.cut == "there are more than 10 files and directories"
    assert seen.files == 10
    assert not seen.whole


@pytest.fixture
def quick_folder(tmp_path):
    """A folder in memory, where there is one: a disk takes half a minute for as many files."""
    shared = Path("/dev/shm")
    base = shared if os.access(shared, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=base) as name:
        yield Path(name)


def test_a_directory_of_200_000_files_is_left_at_the_bound_and_that_is_said(quick_folder):
    folder = os.open(quick_folder, os.O_RDONLY)
    for i in range(200_000):
        os.close(os.open(f"{i}", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)

    began = time.process_time()
    seen = survey(quick_folder, soon())

    assert seen.cut == "there are more than 50000 files and directories"
    assert seen.files == 50_000
    assert not seen.whole
    assert time.process_time() - began < 10  # bounded, however many there are


def test_files_of_many_directories_count_together(tmp_path):
    for i in range(5):
        file(tmp_path / f"{i}/{i}")

    assert survey(tmp_path, soon(), most=10).whole
    assert survey(tmp_path, soon(), most=9).cut


def test_a_search_without_time_says_so(tmp_path):
    from_listing(tmp_path, "listing_mode3.txt")

    seen = survey(tmp_path, time.monotonic() - 1)

    assert seen.cut == "the time for it was over"
    assert seen.files == 0


def test_the_clock_is_looked_at_within_a_large_directory(tmp_path, monkeypatch):
    for i in range(600):
        (tmp_path / f"{i}").touch()
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)

    seen = survey(tmp_path, deadline=1)

    assert seen.cut == "the time for it was over"
    assert 0 < seen.files < 600


def test_more_caches_than_are_told_apart_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_tree, "MOST_LAYOUTS", 3)
    for i in range(5):
        file(tmp_path / f"torch_compile_cache/{i:010x}/rank_0_0/backbone/computation_graph.py")

    seen = survey(tmp_path, soon())

    assert seen.cut == "there are more than 3 caches"
    assert len(seen.layouts) == 3


def test_a_tree_deeper_than_the_stack_is_walked(deep):
    assert survey(deep("d", sys.getrecursionlimit() + 100), soon()).whole


def test_a_tree_with_a_path_that_is_too_long_says_so(deep):
    seen = survey(deep("d" * 250, 20), soon())

    assert [reason for _, reason in seen.unread] == ["has too long a path"]
    assert len(seen.unread[0][0]) <= 400


@pytest.fixture
def deep(tmp_path):
    """Make directories within each other, however long their path becomes."""

    def make(name, depth):
        above = os.open(tmp_path, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir(name, dir_fd=above)
            below = os.open(name, os.O_RDONLY, dir_fd=above)
            os.close(above)
            above = below
        os.close(above)
        return tmp_path

    yield make
    subprocess.run(["rm", "-rf", tmp_path], check=True)  # Python's own way is recursive


# --- hostile trees ---


def test_a_link_to_a_directory_is_not_followed_and_told(tmp_path):
    from_listing(tmp_path / "elsewhere", "listing_mode3.txt")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/torch_compile_cache").symlink_to("../elsewhere/torch_compile_cache")

    seen = survey(tmp_path / "root", soon())

    assert seen.unread == (
        ("torch_compile_cache", "is a link to a directory, and was not followed"),
    )
    assert seen.files == 0
    assert not seen.whole


def test_a_root_that_is_a_link_is_followed(tmp_path):
    from_listing(tmp_path / "vllm", "listing_mode3.txt")
    (tmp_path / "now").symlink_to("vllm/torch_compile_cache/bf36639200")

    (entry,) = survey(tmp_path / "now", soon()).layouts

    assert (entry.kind, entry.path.name) == (INDUCTOR, "bf36639200")


def test_links_that_lead_in_a_circle_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "self").symlink_to(".")

    seen = survey(tmp_path, soon())

    assert {path for path, _ in seen.unread} == {"a", "b", "self"}
    assert "circle" in dict(seen.unread)["a"]


def test_a_root_that_leads_in_a_circle_is_told(tmp_path):
    (tmp_path / "a").symlink_to("a")

    seen = survey(tmp_path / "a", soon())

    assert [path for path, _ in seen.unread] == ["."]
    assert not seen.whole


def test_a_link_that_leads_nowhere_is_a_file_of_its_own(tmp_path):
    (tmp_path / "gone").symlink_to("nowhere")

    assert survey(tmp_path, soon()).files == 1


def test_a_root_that_is_not_there_is_told(tmp_path):
    seen = survey(tmp_path / "none", soon())

    assert seen.unread == ((".", "is not there"),)
    assert not seen.whole


def test_a_root_that_is_a_file_is_told(tmp_path):
    seen = survey(file(tmp_path / "cache"), soon())

    assert [path for path, _ in seen.unread] == ["."]


def test_a_directory_that_vanishes_meanwhile_is_told(tmp_path, monkeypatch):
    from_listing(tmp_path, "listing_mode3.txt")
    cache = tmp_path / "torch_compile_cache"
    meanwhile(monkeypatch, "modelinfos", lambda: cache.rename(cache.with_name("later")))

    seen = survey(tmp_path, soon())

    assert seen.unread == (("torch_compile_cache", "is not there"),)


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(tmp_path, monkeypatch):
    from_listing(tmp_path / "root", "listing_mode3.txt")
    file(tmp_path / "elsewhere/x")
    cache = tmp_path / "root/torch_compile_cache"

    def swap():
        cache.rename(tmp_path / "later")
        cache.symlink_to(tmp_path / "elsewhere")

    meanwhile(monkeypatch, "modelinfos", swap)

    seen = survey(tmp_path / "root", soon())

    assert [path for path, _ in seen.unread] == ["torch_compile_cache"]
    assert seen.files == 1


def meanwhile(monkeypatch, name, act):
    """Do something at the moment when a directory is looked at, which comes first."""

    def layout_of(path, names):
        if path.name == name:
            act()
        return known(path, names)

    known = cache_tree.layout_of
    monkeypatch.setattr(cache_tree, "layout_of", layout_of)
    listed_in_order = cache_tree._listed

    @contextlib.contextmanager
    def ordered(path, rights):
        with listed_in_order(path, rights) as entries:
            yield iter(sorted(entries, key=lambda entry: entry.name))

    monkeypatch.setattr(cache_tree, "_listed", ordered)


def test_what_is_neither_file_nor_directory_is_told_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "socket"))

    seen = survey(tmp_path, soon())

    assert dict(seen.unread) == dict.fromkeys(("pipe", "socket"), "is neither file nor directory")


def test_names_that_are_no_text_are_shown_all_the_same(tmp_path):
    name = os.fsdecode(b"\xff\n\x1b[31m")
    os.mkfifo(tmp_path / name)

    ((path, _),) = survey(tmp_path, soon()).unread

    assert path == "???[31m"


def test_many_faults_are_counted(tmp_path):
    for i in range(40):
        (tmp_path / f"{i}").symlink_to(".")

    seen = survey(tmp_path, soon())

    assert len(seen.unread) == 33
    assert seen.unread[-1] == ("...", "8 more could not be looked at")


# --- hostile factors ---


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no JSON that can be read"),
        ("[" * 100_000, "holds no JSON that can be read"),
        ('{"config_hash": ' + "9" * 5000 + "}", "holds no JSON that can be read"),
        ("[1]", "holds JSON that is no object"),
        ("{}", "holds none of vLLM's hashes"),
        ('{"config_hash": 5}', "holds none of vLLM's hashes"),
        (
            json.dumps({"config_hash": "a", "env": dict.fromkeys(map(str, range(2000)))}),
            "holds more than 1024 variables",
        ),
    ],
)
def test_factors_that_make_no_sense_are_told(tmp_path, text, reason):
    path = file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")
    path.write_text(text)

    seen = survey(tmp_path, soon())

    assert seen.unread == (("rank_0_0/backbone/cache_key_factors.json", reason),)
    assert seen.layouts[0].factors == {}
    assert seen.layouts[0].files == 1


def test_factors_of_100_megabytes_are_not_read(tmp_path):
    path = file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")
    os.truncate(path, 100_000_000)

    ((_, reason),) = survey(tmp_path, soon()).unread

    assert reason == "has 100000000 bytes, more than 1048576"


def test_factors_that_are_a_link_are_not_read(tmp_path):
    file(tmp_path / "elsewhere/cache_key_factors.json")
    (tmp_path / "root/rank_0_0/backbone").mkdir(parents=True)
    path = tmp_path / "root/rank_0_0/backbone/cache_key_factors.json"
    path.symlink_to(tmp_path / "elsewhere/cache_key_factors.json")

    seen = survey(tmp_path / "root", soon())

    assert [reason for _, reason in seen.unread] == ["is a link"]


def test_one_part_without_sense_does_not_hide_the_others(tmp_path):
    file(tmp_path / "rank_0_0/backbone/cache_key_factors.json").write_text("{")
    file(tmp_path / "rank_0_0/eagle_head/cache_key_factors.json")

    seen = survey(tmp_path, soon())

    assert list(seen.layouts[0].factors["parts"]) == ["rank_0_0/eagle_head"]
    assert len(seen.unread) == 1


def test_more_parts_than_are_read_are_told(tmp_path):
    for i in range(20):
        file(tmp_path / f"rank_{i}_0/backbone/cache_key_factors.json")

    seen = survey(tmp_path, soon())

    assert len(seen.layouts[0].factors["parts"]) == 16
    assert [reason for _, reason in seen.unread] == ["4 more files of this name were not read"]


def test_a_long_variable_is_kept_short_and_still_tells_its_end(tmp_path):
    path = file(tmp_path / "rank_0_0/backbone/cache_key_factors.json")
    real = json.loads(path.read_text())
    values = []
    for end in "ab":
        real["env"]["VLLM_LONG"] = "x" * 10_000 + end
        path.write_text(json.dumps(real))
        values.append(survey(tmp_path, soon()).layouts[0].env["VLLM_LONG"])

    assert values[0] != values[1]
    assert max(map(len, values)) <= 120
