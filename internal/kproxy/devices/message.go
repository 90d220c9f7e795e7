package devices

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
)

// The operations of a request.
const (
	opOpen = 1 + iota
	opWrite
	opIoctl
	opBell
	opTree
	opRead
	opContent
)

// version is the version of the protocol. The daemon and the carrier must have the same.
const version = 7

// Sizes of headers in bytes.
const (
	requestSize = 24
	replySize   = 40
	rangeSize   = 16
)

// The flags of a reply.
const (
	flagNeedFile = 1 << iota
	flagBell
	flagNoBell
	flagMemory
	flagWait
	flagQuiet
	flagQuietFile
	flagNeedMemory
	flagCopies
)

// maxPart is the number of bytes of the tree in one reply.
const maxPart = 32 << 10

var ne = binary.NativeEndian

var errMessage = errors.New("devices: a message that is not of the protocol")

// message is a decoded request.
type message struct {
	op, files uint32
	a, b      uint64
	data      []byte
}

// parse decodes a request that came with n descriptors.
func parse(b []byte, n int) (m message, err error) {
	if len(b) < requestSize {
		return m, errMessage
	}
	m = message{op: ne.Uint32(b), files: ne.Uint32(b[4:]), a: ne.Uint64(b[8:]), b: ne.Uint64(b[16:]),
		data: b[requestSize:]}
	want := 1 + int(min(m.files, 2))
	if m.op == opBell {
		want = 0
	}
	hasData := m.op == opOpen || m.op == opWrite || m.op == opIoctl || m.op == opContent
	switch {
	case m.op < opOpen || m.op > opContent || n != want || m.files > 1:
		return m, errMessage
	case !hasData && (len(m.data) > 0 || m.files > 0):
		return m, errMessage
	}
	return m, nil
}

// encodeRequest encodes a request.
func encodeRequest(m *message) []byte {
	b := ne.AppendUint32(nil, m.op)
	b = ne.AppendUint32(b, m.files)
	b = ne.AppendUint64(b, m.a)
	b = ne.AppendUint64(b, m.b)
	return append(b, m.data...)
}

// encodeReply encodes a reply and returns it with its descriptors.
func encodeReply(r *Reply) ([]byte, []*os.File) {
	var files []*os.File
	var addrs []uint64
	flags := uint32(0)
	if r.Memory != nil {
		flags |= flagMemory
		files, addrs = append(files, r.Memory), append(addrs, 0)
	}
	if r.Copies != nil {
		flags |= flagCopies
		files, addrs = append(files, r.Copies), append(addrs, 0)
	}
	for _, d := range r.Files {
		files, addrs = append(files, d.File), append(addrs, d.Addr)
	}
	for flag, isSet := range map[uint32]bool{flagNeedFile: r.NeedFile, flagWait: r.Wait, flagQuiet: r.Quiet,
		flagQuietFile: r.QuietFile, flagNeedMemory: len(r.NeedMemory) > 0} {
		if isSet {
			flags |= flag
		}
	}
	var bell Bell
	if r.Bell != nil {
		bell = *r.Bell
		flags |= flagNoBell
		if bell.IsSet {
			flags ^= flagBell | flagNoBell
		}
	}
	b := ne.AppendUint32(nil, uint32(r.Errno))
	b = ne.AppendUint32(b, flags)
	b = ne.AppendUint64(b, uint64(r.Result))
	b = ne.AppendUint32(b, uint32(r.Number))
	b = ne.AppendUint32(b, bell.Handle)
	b = ne.AppendUint32(b, bell.Index)
	b = ne.AppendUint32(b, uint32(len(files)))
	b = ne.AppendUint32(b, uint32(len(r.Stores)))
	b = ne.AppendUint32(b, uint32(len(r.NeedMemory)))
	for _, a := range addrs {
		b = ne.AppendUint64(b, a)
	}
	for _, s := range r.Stores {
		b = ne.AppendUint64(b, s.Addr)
		b = ne.AppendUint64(b, uint64(len(s.Data)))
		b = append(b, s.Data...)
		b = append(b, make([]byte, -len(s.Data)&7)...)
	}
	for _, m := range r.NeedMemory {
		b = ne.AppendUint64(ne.AppendUint64(b, m.Addr), m.Size)
	}
	return b, files
}

// opened returns the reply to an open.
func opened(f File) *Reply {
	major, minor := f.Device()
	b := ne.AppendUint32(nil, major)
	b = ne.AppendUint32(b, minor)
	b = ne.AppendUint32(b, uint32(os.Getpid()))
	return &Reply{Stores: []Store{{Data: ne.AppendUint32(b, version)}}}
}

// parseReply decodes a reply that came with files, which the reply then owns.
func parseReply(b []byte, files []*os.File) (*Reply, error) {
	if len(b) < replySize {
		return nil, errMessage
	}
	flags, numFiles, numStores := ne.Uint32(b[4:]), ne.Uint32(b[28:]), ne.Uint32(b[32:])
	numRanges := ne.Uint32(b[36:])
	r := &Reply{Errno: syscall.Errno(ne.Uint32(b)), Result: int64(ne.Uint64(b[8:])), Number: int32(ne.Uint32(b[16:])),
		NeedFile: flags&flagNeedFile != 0, Wait: flags&flagWait != 0, Quiet: flags&flagQuiet != 0,
		QuietFile: flags&flagQuietFile != 0}
	if flags&(flagBell|flagNoBell) != 0 {
		r.Bell = &Bell{Handle: ne.Uint32(b[20:]), Index: ne.Uint32(b[24:]), IsSet: flags&flagBell != 0}
	}
	b = b[replySize:]
	if int(numFiles) != len(files) || len(b) < 8*len(files) {
		return nil, errMessage
	}
	for i, f := range files {
		r.Files = append(r.Files, Descriptor{File: f, Close: true, Addr: ne.Uint64(b[8*i:])})
	}
	for flag, to := range map[uint32]**os.File{flagMemory: &r.Memory, flagCopies: &r.Copies} {
		if flags&flag != 0 {
			if len(r.Files) != len(files) || len(files) == 0 { // one of the two comes with a reply
				return nil, errMessage
			}
			*to, r.Files = files[0], r.Files[1:]
		}
	}
	for b = b[8*len(files):]; numStores > 0; numStores-- {
		if len(b) < 16 || ne.Uint64(b[8:]) > uint64(len(b)-16) {
			return nil, errMessage
		}
		n := int(ne.Uint64(b[8:]))
		r.Stores = append(r.Stores, Store{Addr: ne.Uint64(b), Data: b[16 : 16+n]})
		b = b[min(len(b), 16+(n+7)&^7):]
	}
	if flags&flagNeedMemory != 0 {
		return r, r.parseNeeds(b, numRanges)
	}
	return r, nil
}

// parseNeeds decodes the ranges of a reply.
func (r *Reply) parseNeeds(b []byte, n uint32) error {
	if n > MaxRanges || len(b) < int(n)*rangeSize {
		return errMessage
	}
	total := uint64(0)
	for ; n > 0; n-- {
		m := Range{Addr: ne.Uint64(b), Size: ne.Uint64(b[8:])}
		if m.Size > MaxMemory {
			return errMessage
		}
		total += m.Size
		r.NeedMemory, b = append(r.NeedMemory, m), b[rangeSize:]
	}
	if total > MaxMemory {
		return errMessage
	}
	return nil
}

// encodeRanges encodes memory of a program.
func encodeRanges(list []Range) (b []byte) {
	for _, m := range list {
		b = ne.AppendUint64(ne.AppendUint64(b, m.Addr), uint64(len(m.Data)))
		b = append(b, m.Data...)
	}
	return b
}

// parseRanges is the inverse of encodeRanges.
func parseRanges(b []byte) (list []Range, err error) {
	for len(b) > 0 {
		if len(b) < rangeSize || ne.Uint64(b[8:]) > uint64(len(b)-rangeSize) {
			return nil, errMessage
		}
		m := Range{Addr: ne.Uint64(b), Size: ne.Uint64(b[8:])}
		m.Data, b = b[rangeSize:rangeSize+m.Size], b[rangeSize+m.Size:]
		list = append(list, m)
	}
	return list, nil
}

// part returns the reply with the part of a tree that begins at an offset.
func part(tree []byte, offset uint64) *Reply {
	offset = min(offset, uint64(len(tree)))
	return &Reply{Result: int64(len(tree)), Stores: []Store{{Data: tree[offset:min(offset+maxPart,
		uint64(len(tree)))]}}}
}

// content returns the reply with the bytes of a file.
func content(tree []Entry, name string) *Reply {
	isDir := false
	name = path.Clean(name)
	for _, e := range tree {
		switch {
		case e.Path == name && e.Link != "":
			return Fail(syscall.ELOOP)
		case e.Path == name && !e.Dir && len(e.Data) > maxPart:
			return Fail(syscall.EFBIG)
		case e.Path == name && !e.Dir:
			return &Reply{Result: int64(len(e.Data)), Stores: []Store{{Data: e.Data}}}
		}
		isDir = isDir || e.Path == name || strings.HasPrefix(e.Path, name+"/")
	}
	if isDir {
		return Fail(syscall.EISDIR)
	}
	return Fail(syscall.ENOENT)
}

// errnoOf returns the errno of an error.
func errnoOf(err error) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return syscall.EIO
}

// firstLinks is the first version of the protocol in which a tree has links.
const firstLinks = 7

// encodeTree returns entries as bytes: for each one a line with "d", "f" or "l", the size and the path, and then the
// data, or the target of a link.
func encodeTree(entries []Entry) []byte {
	var b []byte
	for _, e := range entries {
		kind, data := 'f', e.Data
		switch {
		case e.Dir:
			kind = 'd'
		case e.Link != "":
			kind, data = 'l', []byte(e.Link)
		}
		b = fmt.Appendf(b, "%c %d %s\n", kind, len(data), e.Path)
		b = append(b, data...)
	}
	return b
}

// decodeTree is the inverse of encodeTree. Paths are absolute and clean.
func decodeTree(b []byte) ([]Entry, error) {
	var entries []Entry
	for text := string(b); text != ""; {
		line, rest, ok := strings.Cut(text, "\n")
		var kind rune
		var size int
		var name string
		if n, err := fmt.Sscanf(line, "%c %d %s", &kind, &size, &name); !ok || err != nil || n != 3 || size < 0 ||
			size > len(rest) || !strings.ContainsRune("dfl", kind) || !path.IsAbs(name) || path.Clean(name) != name {
			return nil, fmt.Errorf("devices: tree: entry %q is not valid", line)
		}
		e := Entry{Path: name, Dir: kind == 'd', Data: []byte(rest[:size])}
		if kind == 'l' {
			e.Link, e.Data = rest[:size], nil
		}
		entries = append(entries, e)
		text = rest[size:]
	}
	return entries, nil
}
