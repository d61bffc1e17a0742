// Voedger's embedded TTL storage on bbolt under Mayfly's workloads. It answers to the same arguments as the
// Rust children (see ../src/workload/mod.rs) and prints its metrics as one line of JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

// job is what the parent asks for.
type job struct {
	workload string
	dir      string
	records  uint64
	seconds  float64
	writers  int
	inFlight int
}

type metrics map[string]float64

func main() {
	var j job
	flags := flag.NewFlagSet("child", flag.ExitOnError)
	flags.String("engine", "bbolt", "ignored: this program has one engine")
	flags.StringVar(&j.workload, "workload", "", "what to run")
	flags.StringVar(&j.dir, "dir", "", "data directory")
	flags.Uint64Var(&j.records, "records", 0, "records")
	flags.Float64Var(&j.seconds, "seconds", 10, "how long one measured phase may take")
	flags.IntVar(&j.writers, "writers", 16, "writers")
	flags.IntVar(&j.inFlight, "in-flight", 64, "operations in flight per writer")
	arguments := os.Args[1:]
	if len(arguments) > 0 && arguments[0] == "child" {
		arguments = arguments[1:]
	}
	if err := flags.Parse(arguments); err != nil {
		fail(err)
	}
	result, err := run(j)
	if err != nil {
		fail(err)
	}
	line, err := json.Marshal(result)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bbolt:", err)
	os.Exit(1)
}

func run(j job) (metrics, error) {
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return nil, err
	}
	workloads := map[string]func(job) (metrics, error){
		"fill": fillOnly, "insert": insert, "read": read, "range": rangeRead, "swap": swap, "reopen": reopen,
		"crash": crash, "reclaim": reclaim, "wait": wait, "amplify": amplify,
	}
	workload, known := workloads[j.workload]
	if !known {
		return nil, fmt.Errorf("unknown workload %q", j.workload)
	}
	return workload(j)
}
