package server_test

import "syscall"

// ownGroup has a child process lead a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends the processes of a group that a child leads or has led.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
