/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Places in the state of an arm64 processor (CPUARMState) of libunicorn 2.1.4, and behind it. */
#define ARM64_STATE_R 0x0 /* r0 to r15 of AArch32 */
#define ARM64_STATE_X 0x40
#define ARM64_STATE_PC 0x140
#define ARM64_STATE_IS_64 0x14c
#define ARM64_STATE_CPSR 0x154 /* the mode of AArch32; flags are elsewhere */
#define ARM64_STATE_CARRY 0x208 /* flags of AArch32, each by itself */
#define ARM64_STATE_OVERFLOW 0x20c /* its sign */
#define ARM64_STATE_NEGATIVE 0x210 /* likewise */
#define ARM64_STATE_NOT_ZERO 0x214
#define ARM64_STATE_THUMB 0x220
#define ARM64_STATE_DAIF 0x230
#define ARM64_STATE_SP_EL0 0x258
#define ARM64_STATE_TTBR0 0x308
#define ARM64_STATE_TTBR1 0x328
#define ARM64_STATE_MPIDR 0xb10
#define ARM64_STATE_SYNDROME 0xbd0
#define ARM64_STATE_TARGET 0xbe0
#define ARM64_REGISTERS 0x31c0 /* a table of system registers */
