package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"
)

const minJava = 17

// checkPlatform reports a platform that the servers do not run on.
func checkPlatform() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the local stack without Docker runs on linux-x64 only, this is %s-%s: use docker compose, "+
			"or point KAFKA_BROKERS and CLICKHOUSE_ADDR at servers of your own", runtime.GOOS, runtime.GOARCH)
	}
	const loader = "/lib64/ld-linux-x86-64.so.2"
	if _, err := os.Stat(loader); err != nil {
		return fmt.Errorf("the local stack without Docker needs glibc (%s is missing; musl will not do): use a glibc distribution such as Debian, or docker compose", loader)
	}
	return nil
}

// findJava returns the java program, checked to be recent enough.
func findJava(ctx context.Context) (string, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("java is not in PATH: Kafka needs Java %d or newer (Debian: apt-get install openjdk-%d-jre-headless)", minJava, minJava)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running %s -version: %w\n%s", java, err, lastLines(output, 5))
	}
	version, err := javaVersion(string(output))
	if err != nil {
		return "", fmt.Errorf("running %s -version: %w", java, err)
	}
	if version < minJava {
		return "", fmt.Errorf("%s is Java %d: Kafka needs Java %d or newer (Debian: apt-get install openjdk-%d-jre-headless)", java, version, minJava, minJava)
	}
	return java, nil
}

var javaVersionLine = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

// javaVersion reads the feature release from what "java -version" prints: 8
// from "1.8.0_392", 17 from "17.0.15".
func javaVersion(output string) (int, error) {
	match := javaVersionLine.FindStringSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("no version in %q", output)
	}
	return strconv.Atoi(match[1])
}

func findMaven() (string, error) {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", errors.New("mvn is not in PATH: it fetches Kafka once (Debian: apt-get install maven)")
	}
	return filepath.Abs(mvn)
}

func findNPM() (string, error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", errors.New("node is not in PATH: npm needs it to fetch ClickHouse once (Debian: apt-get install nodejs npm)")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not in PATH: it fetches ClickHouse once (Debian: apt-get install npm)")
	}
	return filepath.Abs(npm)
}
