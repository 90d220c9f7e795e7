package reference

import "runtime"

// poll looks for new work of the process and runs the engine of the QPs that have some. While there is work, and for
// Config.UserIdle afterwards, it does so without system calls; then it sleeps until the doorbell is rung.
func (u *userContext) poll() {
	defer close(u.done)
	busy, rounds := u.time.Now(), 0
	for !u.quit.Load() {
		worked := u.head.Take(u.kick)
		if u.hca.Progress() || worked {
			busy, rounds = u.time.Now(), 0
			runtime.Gosched()
			continue
		}
		if rounds++; u.time.Now()-busy < u.idle && rounds < maxIdleRounds {
			runtime.Gosched()
			continue
		}
		u.head.Sleep()
		if u.head.Take(u.kick) {
			u.head.Wake()
			continue
		}
		u.hca.Attend()
		if u.bell.Wait() != nil {
			return
		}
		u.doorbells.Add(1)
		u.allDoorbells.Add(1)
		u.head.Wake()
		busy, rounds = u.time.Now(), 0
	}
}

// maxIdleRounds is the most rounds without work before poll sleeps, whatever the clock says, which may be virtual.
const maxIdleRounds = 1 << 16

// kick runs the engine of the QP with an index. The index comes from the process.
func (u *userContext) kick(i uint32) {
	if f := u.kicks.get(i); f != nil {
		(*f)()
	}
}
