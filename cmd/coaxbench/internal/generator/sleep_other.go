//go:build !linux

package generator

import "time"

func sleepExactly(d time.Duration) { time.Sleep(d) }
