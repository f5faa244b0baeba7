# SPDX-License-Identifier: GPL-2.0-or-later
"""Parameters of modules: their types, and what is refused."""

import errno

import pytest

from tests.modbox import module, refused

TYPES = r"""
static int i = 1; module_param(i, int, 0644);
static uint u; module_param(u, uint, 0);
static long l; module_param(l, long, 0);
static ulong ul; module_param(ul, ulong, 0);
static short s; module_param(s, short, 0);
static unsigned char b; module_param(b, byte, 0);
static bool on; module_param(on, bool, 0);
static bool off = true; module_param(off, invbool, 0);
static char *p = "none"; module_param(p, charp, 0);
static char str[6] = "short"; module_param_string(str, str, 6, 0);
static int a[3]; static int n; module_param_array(a, int, &n, 0);
static int old; module_param_named(new_name, old, int, 0);
static int set(const char *v, const struct kernel_param *kp)
{ pr_info("set to %s\n", v); return strcmp(v, "no") ? 0 : -EPERM; }
static const struct kernel_param_ops ops = { .set = set };
module_param_cb(cb, &ops, NULL, 0);
INIT(pr_info("%d %u %ld %lu %d %d %d %d %s %s %d:%d,%d,%d %d\n", i, u, l, ul, s, b, on,
    off, p, str, n, a[0], a[1], a[2], old); return 0;)
EXIT()
"""


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        ("", "1 0 0 0 0 0 0 1 none short 0:0,0,0 0"),
        ("i=-5 u=4000000000", "-5 4000000000 0 0 0 0 0 1 none short 0:0,0,0 0"),
        ("i=0x10 l=-7 ul=010 s=-2", "16 0 -7 8 -2 0 0 1 none short 0:0,0,0 0"),
        ("on b=255 off=y", "1 0 0 0 0 255 1 0 none short 0:0,0,0 0"),
        ('p="two words" str=abc', "1 0 0 0 0 0 0 1 two words abc 0:0,0,0 0"),
        ("a=1,2,3 new-name=3", "1 0 0 0 0 0 0 1 none short 3:1,2,3 3"),
        ("a=9", "1 0 0 0 0 0 0 1 none short 1:9,0,0 0"),
    ],
)
def test_parameters(box, parameters, shown):
    box.log()
    box.insmod(module("types", TYPES), parameters)
    assert box.log() == [shown]


@pytest.mark.parametrize(
    ("parameter", "number", "messages"),
    [
        ("i=abc", errno.EINVAL, ["types: `abc' invalid for parameter `i'"]),
        ("i", errno.EINVAL, ["types: `' invalid for parameter `i'"]),
        ("i=", errno.EINVAL, ["types: `' invalid for parameter `i'"]),
        ("i=3000000000", errno.ERANGE, None),
        ("b=256", errno.ERANGE, ["types: `256' invalid for parameter `b'"]),
        ("on=maybe", errno.EINVAL, ["types: `maybe' invalid for parameter `on'"]),
        (
            "str=toolong",
            errno.ENOSPC,
            [
                "str: string doesn't fit in 5 chars.",
                "types: `toolong' too large for parameter `str'",
            ],
        ),
        (
            "a=1,2,3,4",
            errno.EINVAL,
            [
                "a: can only take 3 arguments",
                "types: `1,2,3,4' invalid for parameter `a'",
            ],
        ),
        ("cb=no", errno.EPERM, ["set to no", "types: `no' invalid for parameter `cb'"]),
    ],
)
def test_bad_parameters(box, parameter, number, messages):
    log = refused(box, number, module("types", TYPES), parameter)
    assert messages is None or log == messages
    assert box.modules() == []


def test_unknown_parameter_is_ignored(box):
    box.log()
    box.insmod(module("types", TYPES), "i=2 nothing=3")
    assert box.log() == [
        "types: unknown parameter 'nothing' ignored",
        "2 0 0 0 0 0 0 1 none short 0:0,0,0 0",
    ]


def test_words_behind_two_dashes(box):
    body = r"""
        static char *a = "none"; module_param(a, charp, 0);
        INIT(pr_info("%s\n", a); return 0;)
    """
    box.log()
    box.insmod(module("words", body), "a=1 -- a=2 b")
    assert box.log() == ["words: parameters 'a=2 b' after `--' ignored", "1"]
