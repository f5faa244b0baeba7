/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Tables of libunicorn's functions that libunicorn.py fills in once the library is loaded. */

/* A function of libunicorn, and where its address goes. */
struct original {
	const char *name;
	void **place;
};

#define ORIGINAL(name, place) { name, (void **)&(place) }
#define END_OF_ORIGINALS { 0, 0 }
