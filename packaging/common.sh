# Functions that the packaging scripts share. Sourced by bash; `here` is the packaging directory.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# All packages are reproducible: the same files give the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2> /dev/null || echo 0)}
umask 022

# architecture_of BINARY: prints Debian's name of the architecture, which OCI images use, too.
architecture_of() {
    case $(readelf -h "$1" | sed -n 's/^ *Machine: *//p') in
        *X86-64) echo amd64 ;;
        AArch64) echo arm64 ;;
        *) echo "$1: no binary for x86-64 or AArch64" >&2; return 1 ;;
    esac
}

# glibc_of BINARY: prints the oldest version of the GNU C library that has all symbols of the binary.
glibc_of() { objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1 | cut -d _ -f 2; }

# needs BINARY LIBRARY: true if the binary loads the shared library at its start.
needs() { readelf -d "$1" | grep -q "NEEDED.*\[$2\]"; }

# The program that generates pages and reports the version: GENERATOR if BINARY is for another machine.
generator_of() { echo "${GENERATOR:-$1}"; }
version_of() { echo "${VERSION:-$("$(generator_of "$1")" --version | cut -d ' ' -f 2)}"; }

# settle DIRECTORY: gives files that are newer than the commit its time.
settle() { find "$1" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +; }

# pack DIRECTORY OUTPUT NAME...: a tar archive of NAME... below DIRECTORY with fixed order, times and owners.
pack() {
    local folder=$1 output=$2
    shift 2
    tar --create --file "$output" --directory "$folder" --sort=name --format=pax --owner=0 --group=0 --numeric-owner \
        --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime --mtime="@$SOURCE_DATE_EPOCH" "$@"
}

# tools_environment: prints the directory with the commands of tools.requirements.
tools_environment() { dirname "$("$here/../conformance/python-environment" tools "$here/tools.requirements")"; }
