# Makes a string of C of each line.
s/[\\"]/\\&/g
s/.*/"&\\n"/
