package cli

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"path/filepath"
)

// lackingParts reports whether this machine has the C library without the libraries that were parts of it before glibc
// 2.34. Images have no more if they were made of what ldd lists of a program.
func lackingParts() bool { return isInPlaces("libc.so.6") && !isInPlaces("libdl.so.2") }

func isInPlaces(name string) bool {
	for _, pattern := range libraryPlaces {
		if found, _ := filepath.Glob(filepath.Join(pattern, name)); len(found) > 0 { // the patterns are valid
			return true
		}
	}
	return false
}

// inOne returns a library that needs libc.so.6 wherever it needs a part of the C library: the library has each function
// with the version that it had in the part.
func inOne(library []byte) []byte {
	b := bytes.Clone(library)
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		panic(err) // it is one of ours
	}
	order := f.ByteOrder
	names := f.Section(".dynstr")
	at := func(name string) uint64 {
		i := bytes.Index(b[names.Offset:names.Offset+names.Size], []byte("\x00"+name+"\x00"))
		return uint64(i + 1) // 0, which is no name, if there is none
	}
	to := at("libc.so.6")
	from := map[uint64]bool{at("libdl.so.2"): true, at("libpthread.so.0"): true}
	dynamic := f.Section(".dynamic")
	const entry = 16 // a tag and a value
	for e := b[dynamic.Offset : dynamic.Offset+dynamic.Size]; len(e) >= entry; e = e[entry:] {
		if elf.DynTag(order.Uint64(e)) == elf.DT_NEEDED && from[order.Uint64(e[8:])] {
			order.PutUint64(e[8:], to)
		}
	}
	retarget(b[f.Section(".gnu.version_r").Offset:], order, from, to)
	return b
}

// retarget replaces the names of libraries in a list of the versions that they must have (Elf64_Verneed).
func retarget(list []byte, order binary.ByteOrder, from map[uint64]bool, to uint64) {
	const offFile, offNext = 4, 12
	for {
		if from[uint64(order.Uint32(list[offFile:]))] {
			order.PutUint32(list[offFile:], uint32(to))
		}
		next := order.Uint32(list[offNext:])
		if next == 0 {
			return
		}
		list = list[next:]
	}
}
