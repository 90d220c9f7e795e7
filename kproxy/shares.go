package kproxy

import (
	"sync"

	"ciddk/ci"
	"ciddk/internal/memlimit"
)

// shares are what all clients together hold of the limits of the daemon's process: mappings of their memory, their
// bytes, and descriptors of their event queues and open adapters. One user has half of a limit at most, unless it could
// stop the daemon anyway, so that no user keeps others from working.
type shares struct {
	mu    sync.Mutex
	all   share
	users map[int]share // by user id
}

// share is a part of the limits.
type share struct{ mappings, files, space int64 }

func (s *share) add(x share) {
	s.mappings += x.mappings
	s.files += x.files
	s.space += x.space
}

// share returns the part of the limits that a charge has.
func (x *charge) share() share { return share{int64(x.mappings), int64(x.files), x.space} }

// filesPerCA is the number of descriptors that a driver is estimated to hold for a process: memory that it shares, and
// a doorbell.
const filesPerCA = 4

// maxSpace returns how many bytes of clients' memory a daemon maps: the runtime ends a process that cannot map any
// more.
var maxSpace = sync.OnceValue(memlimit.Mapped)

// spacePerCA is the number of bytes of the memory that a driver is estimated to share with a process.
var spacePerCA = sync.OnceValue(memlimit.UserMemory)

// take adds to what the clients of a user hold. Status: InsufficientResources.
func (s *shares) take(verb string, p Peer, x share) error {
	if x == (share{}) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	user := s.users[p.UID]
	for _, l := range []struct {
		add, all, user, most int64
		what, limit          string
	}{
		{x.mappings, s.all.mappings, user.mappings, maxMappings(), "mappings of clients' memory",
			"half of vm.max_map_count"},
		{x.files, s.all.files, user.files, maxFiles(), "descriptors for clients", "three quarters of RLIMIT_NOFILE"},
		{x.space, s.all.space, user.space, maxSpace(), "mapped bytes of clients' memory",
			"a quarter of what RLIMIT_AS leaves"},
	} {
		switch {
		case l.add == 0:
		case l.add > l.most-l.all:
			return failf(verb, ci.InsufficientResources, "the daemon has %d %s, and its limit is %d (%s)", l.all,
				l.what, l.most, l.limit)
		case l.add > l.most/2-l.user && !isOwnUser(p):
			return failf(verb, ci.InsufficientResources, "the daemon has %d %s of user %d, and the limit of a user is "+
				"%d", l.user, l.what, p.UID, l.most/2)
		}
	}
	if s.users == nil {
		s.users = map[int]share{}
	}
	s.all.add(x)
	user.add(x)
	s.users[p.UID] = user
	return nil
}

// give takes back from what the clients of a user hold.
func (s *shares) give(p Peer, x share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x = share{-x.mappings, -x.files, -x.space}
	user := s.users[p.UID]
	s.all.add(x)
	user.add(x)
	if user == (share{}) {
		delete(s.users, p.UID)
	} else {
		s.users[p.UID] = user
	}
}
