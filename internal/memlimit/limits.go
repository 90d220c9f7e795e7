// Package memlimit returns how much memory this process may have, for the defaults of limits: what is within them must
// not end the process.
package memlimit

import (
	"math"
	"sync"
)

const page = 4096

// share returns a part of n, at most most, in whole pages.
func share(n, part, most int64) int64 { return max(min(n/part, most)&^(page-1), 16*page) }

// UseOneHeap executes the program again, with one heap of the C library, if the address space is limited. In a program
// that was built with cgo, each thread would otherwise reserve 64 MiB for a heap (mallopt(3), M_ARENA_MAX). Call it
// before anything else.
func UseOneHeap() { useOneHeap() }

// Memory returns the number of bytes that this process may use, math.MaxInt64 if that is not known: the least of the
// machine's memory, the limits of the control groups of the process, RLIMIT_DATA and AddressSpace.
func Memory() int64 { return min(memory(), AddressSpace()) }

// AddressSpace returns half of what RLIMIT_AS leaves beyond the mappings of the process at the first call,
// math.MaxInt64 if there is no limit. The Go runtime has mapped more than a gigabyte then. The other half is for
// garbage and threads.
var AddressSpace = sync.OnceValue(addressSpace)

// Mapped returns how many bytes of clients' memory a daemon may map: half of its address space.
func Mapped() int64 { return AddressSpace() / 2 }

// Queues returns how many bytes all queues of an adapter may have: 4 GiB, or a quarter of the memory.
func Queues() int64 { return share(Memory(), 4, 4<<30) }

// ClientQueues returns how many bytes all queues of a client may have: 1 GiB, or an eighth of the memory.
func ClientQueues() int64 { return share(Memory(), 8, 1<<30) }

// ClientServices returns how many bytes a client's listeners, connections and agents may have: 64 MiB, or a 64th of the
// memory.
func ClientServices() int64 { return share(Memory(), 64, 64<<20) }

// UserMemory returns the size of the memory that an adapter shares with a client: 1 GiB, or a 64th of the address
// space. Only what queues use is occupied.
func UserMemory() int64 {
	if AddressSpace() == math.MaxInt64 {
		return 1 << 30
	}
	return share(AddressSpace(), 64, 1<<30)
}
