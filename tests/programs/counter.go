// SPDX-License-Identifier: GPL-2.0-or-later

// A program of cilium/ebpf: a kprobe that counts the getppid() of this process in an array
// and tells of each by a ring buffer.  Prints what came, and fails if that is not exact.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

const hits = 100

func instructions(pid int, counts, events *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(pid), "exit"),
		asm.Mov.Reg(asm.R6, asm.R0),
		// a record
		asm.LoadMapPtr(asm.R1, events.FD()),
		asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.StoreMem(asm.R0, 0, asm.R6, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRingbufSubmit.Call(),
		// the count
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, counts.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	}
}

func run() error {
	counts, err := ebpf.NewMap(&ebpf.MapSpec{
		Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	events, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 16})
	if err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.Kprobe,
		License:      "GPL",
		Instructions: instructions(os.Getpid(), counts, events)})
	if err != nil {
		return err
	}
	probe, err := link.Kprobe("sys_getppid", program, nil)
	if err != nil {
		return err
	}
	reader, err := ringbuf.NewReader(events)
	if err != nil {
		return err
	}
	for i := 0; i < hits; i++ {
		syscall.Getppid()
	}
	if err := probe.Close(); err != nil {
		return err
	}
	for i := 0; i < hits; i++ {
		record, err := reader.Read()
		if err != nil {
			return err
		}
		if pid := binary.LittleEndian.Uint64(record.RawSample); pid != uint64(os.Getpid()) {
			return fmt.Errorf("record %d tells of %d", i, pid)
		}
	}
	var count uint64
	if err := counts.Lookup(uint32(0), &count); err != nil {
		return err
	}
	fmt.Printf("%d hits, %d records\n", count, hits)
	if count != hits {
		return fmt.Errorf("%d calls", hits)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}
