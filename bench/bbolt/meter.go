package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpu is the user and system time of this process so far.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // RUSAGE_SELF cannot fail
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// written is what this process caused to be sent to the disk so far.
func written() (float64, error) {
	return field("/proc/self/io", "write_bytes:")
}

// memory is the anonymous memory of this process after giving free memory back.
func memory() (float64, error) {
	debug.FreeOSMemory()
	kilobytes, err := field("/proc/self/status", "RssAnon:")
	return kilobytes * 1024, err
}

func field(file, name string) (float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			return strconv.ParseFloat(words[1], 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, name)
}

// disk is the space a directory occupies, in megabytes.
func disk(dir string) (float64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, file := range files {
		var stat syscall.Stat_t
		if err := syscall.Stat(file, &stat); err != nil {
			return 0, err
		}
		sum += stat.Blocks * 512
	}
	return float64(sum) / 1e6, nil
}
