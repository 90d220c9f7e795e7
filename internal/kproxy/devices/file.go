package devices

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// A FrontEnd implements device files. Its methods may be called concurrently.
type FrontEnd interface {
	// Tree returns the files that programs find in the file system.
	Tree() []Entry

	// Open opens a device file for a client. The error is a syscall.Errno, or has one in its chain; others are EIO.
	Open(path string, p kproxy.Peer) (File, error)
}

// An Entry is a file of the tree, an empty directory, or a symbolic link.
type Entry struct {
	Path string // absolute; without the links of the tree
	Dir  bool
	Link string // target, "" for others
	Data []byte
}

// A File is an open device file. Its methods may be called concurrently. No call begins after Close; those in progress
// then fail.
type File interface {
	// Device returns the numbers of the device, as stat shows them.
	Device() (major, minor uint32)
	// Call executes a system call.
	Call(r *Request) *Reply
	// Bell wakes the adapter.
	Bell()
	// Close releases everything that the client has.
	Close()
}

// A Poller is a File whose descriptor programs poll for input. The server calls SetWake before any other method. Each
// call of wake makes the descriptor readable until a Reply with Quiet or QuietFile reports that it no longer is. wake
// does not block.
type Poller interface {
	File
	SetWake(wake func())
}

// A Reader is a File that programs read. Others fail with EINVAL.
type Reader interface {
	File
	// Read executes a read of at most size bytes to an address. size is at most MaxRead. A reply with the errno EAGAIN
	// may have Wait.
	Read(addr, size uint64) *Reply
}

// MaxRead is the maximum number of bytes that a read returns.
const MaxRead = schema.MaxMessage

// A Dialog is a File that exchanges datagrams with the program, such as a netlink socket. The connection transports the
// datagrams themselves, and Call is not used. Datagram is not called concurrently.
type Dialog interface {
	File
	// Datagram executes a datagram of the program. send sends a datagram of the reply, and waits while the program does
	// not receive; its error ends the dialog, and Datagram returns it. A datagram can have thousands of requests, so
	// Datagram does not keep the replies to one while it executes the next.
	Datagram(b []byte, send func([]byte) error) error
}

// A Request is a system call on a device file: an ioctl if IsIoctl, else a write of Data.
type Request struct {
	Data []byte

	IsIoctl        bool
	Ioctl, Operand uint64
	Memory         []Range // of the program, as an earlier Reply asked for it with NeedMemory

	// Number and File are a descriptor of the program that an earlier Reply asked for with NeedFile. File is nil if
	// there is none; the server closes it. For a write that registers memory, File may be a file in memory that the
	// program has mapped there, with the first byte at Offset.
	Number int32
	File   *os.File
	Offset uint64

	// Token is the carrier's number of the memory that a write without File registers, by which it copies the memory:
	// Reply.Copies. It is 0 if the carrier does not.
	Token  uint64
	Device File // the open device file that File is a descriptor of, if the same user has it open; else nil
}

// A Reply is the result of a call.
type Reply struct {
	Errno  syscall.Errno
	Result int64 // what the call returns if Errno is 0
	Stores []Store
	Files  []Descriptor

	// Memory is what the program maps when it maps the device file.
	Memory *os.File

	// Wait reports, with the errno EAGAIN, that the call would block. For a descriptor in blocking mode, the carrier
	// waits until it is readable and repeats the call.
	Wait bool
	// Quiet takes back one wake of the file, and QuietFile one of Request.Device.
	Quiet, QuietFile bool

	// NeedMemory lists memory of the program that an ioctl needs, at most MaxRanges ranges. Nothing was executed. The
	// carrier repeats the call with these ranges only, so a Reply lists all that the call needs.
	NeedMemory []Range

	// Copies is a socket by which the carrier copies memory of the program, because the daemon cannot reach it: the
	// carrier reads schema.Copy from each message and writes a schema.CopyReply for it. Nothing was executed. The
	// carrier repeats the call with a Token, or else the call has failed with Errno. The server closes Copies when it
	// has sent it. A reply has Copies or Memory.
	Copies *os.File

	// Unsent is called if the descriptors of the reply could not be sent. nil: nothing is to be done.
	Unsent func()

	// NeedFile reports that the call needs the program's descriptor Number. Nothing was executed.
	NeedFile bool
	Number   int32

	Bell *Bell
}

// A Range is memory of the program: its address, size and, in a Request, content.
type Range struct {
	Addr, Size uint64
	Data       []byte
}

// MaxRanges is the maximum number of ranges of a call, and MaxMemory the maximum number of their bytes.
const (
	MaxRanges = 24
	MaxMemory = schema.MaxMessage - requestSize - MaxRanges*rangeSize
)

// Load returns memory of the program. It reports false if the request does not contain it, and for a range that exceeds
// the address space, so that the address of each byte of a range is a sum that does not overflow.
func (r *Request) Load(addr, size uint64) ([]byte, bool) {
	if addr+size < addr {
		return nil, false
	}
	for _, m := range r.Memory {
		if addr >= m.Addr && size <= uint64(len(m.Data)) && addr-m.Addr <= uint64(len(m.Data))-size {
			return m.Data[addr-m.Addr:][:size], true
		}
	}
	return nil, false
}

// A Store is bytes to store at an address of the program.
type Store struct {
	Addr uint64
	Data []byte
}

// A Descriptor is a descriptor for the program.
type Descriptor struct {
	File  *os.File
	Close bool   // the server closes File when it has sent it
	Addr  uint64 // of the u32 in which the program finds the number
}

// A Bell changes which bell belongs to the handle of a QP. Without IsSet, none does any more.
type Bell struct {
	Handle, Index uint32
	IsSet         bool
}

// FrontEnds is a front end that consists of several. A path belongs to the first one that does not return ENOENT.
type FrontEnds []FrontEnd

// Tree implements FrontEnd.
func (l FrontEnds) Tree() (tree []Entry) {
	for _, f := range l {
		tree = append(tree, f.Tree()...)
	}
	return tree
}

// Open implements FrontEnd.
func (l FrontEnds) Open(path string, p kproxy.Peer) (File, error) {
	for _, f := range l {
		file, err := f.Open(path, p)
		if !errors.Is(err, syscall.ENOENT) {
			return file, err
		}
	}
	return nil, syscall.ENOENT
}

// CopyMemory is the path of the entry that states whose memory the daemon copies: "own" for the daemon's user and root,
// "all" or "none". It is not below a directory that programs look into.
const CopyMemory = "/ddkd/copy-memory"

// DaemonVersion is the path of the entry that states what the daemon is: the version of the protocol, and what the
// daemon was built from.
const DaemonVersion = "/ddkd/version"

// VersionNote returns the entry at DaemonVersion of a daemon that was built from build.
func VersionNote(build string) Entry {
	return Entry{Path: DaemonVersion, Data: fmt.Appendf(nil, "%d\n%s\n", version, build)}
}

// lastUnstated is the last version of the protocol whose daemons have no entry at DaemonVersion.
const lastUnstated = 6

// CheckVersion returns what the daemon of a tree was built from. Error: it has another version of the protocol than
// this program, which was built from own.
func CheckVersion(tree []Entry, own string) (build string, err error) {
	number := strconv.Itoa(lastUnstated)
	build = "an older ddkd"
	if i := slices.IndexFunc(tree, func(e Entry) bool { return e.Path == DaemonVersion }); i >= 0 {
		number, build, _ = strings.Cut(strings.TrimSpace(string(tree[i].Data)), "\n")
	}
	if number != strconv.Itoa(version) {
		err = fmt.Errorf("devices: the daemon has version %s of the protocol (%s), and this program version %d (%s): "+
			"use one version of the kit", number, build, version, own)
	}
	return build, err
}

// Notes are entries of a tree that are not device files.
type Notes []Entry

// Tree implements FrontEnd.
func (n Notes) Tree() []Entry { return n }

// Open fails with ENOENT.
func (Notes) Open(string, kproxy.Peer) (File, error) { return nil, syscall.ENOENT }

// Fail returns the reply of a call that failed.
func Fail(e syscall.Errno) *Reply { return &Reply{Errno: e} }
