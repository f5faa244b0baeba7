# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of x86: exceptions, flags, instructions.  Named as in Linux."""

X86_TRAP_UD, X86_TRAP_GP, X86_TRAP_PF = 6, 13, 14
X86_EFLAGS_FIXED, X86_EFLAGS_TF, X86_EFLAGS_IF = 0x2, 0x100, 0x200
NOP5 = bytes.fromhex("0f1f440000")  # at an ftrace site, or a static key
NOP5_32 = bytes.fromhex("3e8d742600")  # likewise, in a kernel for i386
