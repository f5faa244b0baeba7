/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Functions of libunicorn that those here call, which libunicorn.py finds once it is loaded. */

/* A function of libunicorn, and where its address goes. */
struct original {
	const char *name;
	void **place;
};

/* Rows for the one table of all of them; several files and macros add to it. */
#define ORIGINALS(...) \
	static struct original rows[] __attribute__((used, section("originals"))) = { __VA_ARGS__ }
#define ORIGINAL(name, place) { name, (void **)&(place) }
