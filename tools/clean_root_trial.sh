#!/usr/bin/env bash
# Tries the two commands on a machine that has nothing: a fresh Debian 12 root with git, make and python3 only, a clone
# of this repository inside, `make demo` twice and `.ci/run`, each timed. Needs root, debootstrap and about 6 GB.
# usage: tools/clean_root_trial.sh DIR [command...]     DIR is made anew; default commands: demo demo ci
# The mirror and apt's and pip's settings are those of the machine it runs on.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=${1:?usage: clean_root_trial.sh DIR [setup|demo|ci...]}
shift
[ $# -gt 0 ] || set -- demo demo ci
[ "$(id -u)" = 0 ] || { echo "clean_root_trial: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "clean_root_trial: apt-get install debootstrap" >&2; exit 1; }
[ ! -e "$root" ] || { echo "clean_root_trial: $root exists already" >&2; exit 1; }

mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
begin=$SECONDS
debootstrap --variant=minbase --include=git,make,python3,ca-certificates bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
  { tail "$root.log" >&2; exit 1; }
echo "clean_root_trial: root made in $((SECONDS - begin)) s, $(du -sm "$root" | cut -f1) MB"

for file in $(grep -l Acquire /etc/apt/apt.conf.d/* || true); do cp "$file" "$root/etc/apt/apt.conf.d/"; done
for file in /etc/pip.conf /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [ ! -e "$file" ] || cp -L "$file" "$root$file"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
trap 'umount "$root/proc"; umount -l "$root/dev"' EXIT
git clone -q --no-hardlinks "$repository" "$root/home/brisk"

inside() {  # a command in the clone, without this machine's environment but for pip's settings
  # shellcheck disable=SC2046
  env -i $(env | grep '^PIP_' | grep -v FIND_LINKS || true) PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    HOME=/home chroot "$root" sh -c "cd /home/brisk && $1" </dev/null
}

status=0
for name in "$@"; do
  case $name in
    setup) command="tools/setup.sh test" ;;
    demo) command="make demo" ;;
    ci) command=.ci/run ;;
    *) echo "clean_root_trial: no command '$name'" >&2; exit 1 ;;
  esac
  begin=$SECONDS
  TIMEFORMAT='clean_root_trial: processor time %U s user, %S s system'
  time inside "$command" || status=1
  echo "clean_root_trial: $command: $((SECONDS - begin)) s, status $status, root $(du -sm --exclude=proc --exclude=dev "$root" | cut -f1) MB," \
    "apt archives $(du -sm "$root/var/cache/apt/archives" | cut -f1) MB"
done
exit $status
