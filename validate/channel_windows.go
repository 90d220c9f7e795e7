package validate

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// inherit passes files on to a command, and returns the names by which inherited finds them.
func inherit(cmd *exec.Cmd, in, out *os.File) (names string, err error) {
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	for _, f := range []*os.File{in, out} {
		h := syscall.Handle(f.Fd())
		if err := syscall.SetHandleInformation(h, syscall.HANDLE_FLAG_INHERIT, syscall.HANDLE_FLAG_INHERIT); err != nil {
			return "", err
		}
		attr.AdditionalInheritedHandles = append(attr.AdditionalInheritedHandles, h)
	}
	return fmt.Sprintf("%d,%d", in.Fd(), out.Fd()), nil
}

// inherited opens a handle that the parent passed on. Programs that the driver starts do not get it.
func inherited(h uintptr, name string) *os.File {
	_ = syscall.SetHandleInformation(syscall.Handle(h), syscall.HANDLE_FLAG_INHERIT, 0) // a wrong handle fails at its first use
	return os.NewFile(h, name)
}
