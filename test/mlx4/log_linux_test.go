package mlx4

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/testenv"
)

const (
	// patience is the longest wait for a change of the guest's state, on a machine that is busy with others.
	patience = testenv.Patience
	poll     = 200 * time.Millisecond
)

// commandLog keeps the last commands of a model.
type commandLog struct {
	mu   sync.Mutex
	list []model.Command
}

const keptCommands = 60

func (l *commandLog) add(c model.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == keptCommands {
		l.list = append(l.list[:0], l.list[1:]...)
	}
	l.list = append(l.list, c)
}

// String returns a line for each command.
func (l *commandLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, c := range l.list {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}
