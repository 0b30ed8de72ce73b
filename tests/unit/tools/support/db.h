/* Databases for tests. */
#ifndef DB_H
#define DB_H

/* Removes the database and SQLite's files beside it, if they exist. */
void db_remove(const char *path);

#endif
