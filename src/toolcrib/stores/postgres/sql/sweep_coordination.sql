WITH old_counts AS (
    DELETE FROM toolcrib.use_count
    WHERE fleet = %(fleet)s AND until < extract(epoch FROM clock_timestamp()) * 1000000 - 60000000
), old_places AS (
    DELETE FROM toolcrib.place
    WHERE fleet = %(fleet)s AND until < extract(epoch FROM clock_timestamp()) * 1000000
), old_values AS (
    DELETE FROM toolcrib.kept_value WHERE fleet = %(fleet)s AND until < clock_timestamp()
), old_parcels AS (
    DELETE FROM toolcrib.parcel WHERE fleet = %(fleet)s AND until < clock_timestamp()
)
DELETE FROM toolcrib.lease WHERE fleet = %(fleet)s AND until < clock_timestamp()
